"""Real Apache Kafka on this machine: the archives to get, and how the servers are set up."""
