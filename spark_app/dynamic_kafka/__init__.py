"""Many Kafka clusters, one Spark stream: a PySpark data source that follows a changing set of clusters."""
