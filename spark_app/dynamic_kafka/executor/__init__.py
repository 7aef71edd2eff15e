"""The executors' side of a query: read one range of a split from Kafka into Arrow batches."""
