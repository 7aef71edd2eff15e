"""The operator: KafkaStreams and subscriptions in, rendered documents and confirmed roll-outs out."""
