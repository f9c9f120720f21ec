"""What several commands share: asking a scorer, reading a fleet, showing."""
