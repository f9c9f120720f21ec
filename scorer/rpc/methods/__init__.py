"""One method of the RPC each, and what they share."""
