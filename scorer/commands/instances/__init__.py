"""Commands about instances: confirm, update, release, the list of them, and why one is where it is."""
