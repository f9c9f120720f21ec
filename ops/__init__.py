"""Running Windward: the command, the local stack, containers. Nothing imports it."""
