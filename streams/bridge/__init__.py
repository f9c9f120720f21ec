"""The bridge: measurements of another agent, read from Kafka, as samples."""
