"""The state of a partition, and how it becomes values in Redis and is resumed from them. Pure."""
