"""Apache Kafka on this machine: fetches the archives; the files beside name them, and set the log."""
