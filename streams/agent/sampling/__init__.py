"""From readings of collectors to samples, and the samples not sent yet. Pure."""
