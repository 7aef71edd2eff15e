"""The test harness, shared with the demo: real brokers, Spark sessions, a Kubernetes, and their downloads."""
