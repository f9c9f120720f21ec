"""The windows of all machines at one moment, as read-only numpy columns, and how they are read from Redis."""
