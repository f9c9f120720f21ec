"""Which machine is next: a new ranking, or one that is kept and still holds. Pure."""
