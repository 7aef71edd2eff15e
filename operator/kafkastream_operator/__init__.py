"""The operator: it renders documents from KafkaStreams and subscriptions, and rolls them out to Spark applications."""
