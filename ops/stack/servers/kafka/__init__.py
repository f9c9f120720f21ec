"""Apache Kafka on this machine: fetches the archives, and writes the servers' settings."""
