"""The reading benchmark: this source against Spark's own Kafka source and against librdkafka alone (`run.py`)."""
