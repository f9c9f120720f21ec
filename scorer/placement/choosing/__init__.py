"""Which machine is next: for one instance, for a batch, or on a what-if. Pure."""
