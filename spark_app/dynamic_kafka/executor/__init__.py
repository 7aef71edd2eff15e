"""The part of a query that runs on executors: read one range of a split from Kafka into Arrow batches."""
