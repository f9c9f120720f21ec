"""The stream app: Faust, Kafka's topics, the store in Redis."""
