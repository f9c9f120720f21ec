"""From readings of collectors to samples, and the backlog of unsent samples. Pure."""
