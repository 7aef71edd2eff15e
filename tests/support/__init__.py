"""What tests and the demo run against: real brokers, Spark sessions, the jars they need."""
