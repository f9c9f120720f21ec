"""Hosts that have another agent already: its measurements from Kafka, as samples."""
