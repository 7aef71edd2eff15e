"""The application's queries: the Spark session, the sinks, and the supervisor that restarts a failed query."""
