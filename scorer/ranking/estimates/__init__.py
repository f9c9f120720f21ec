"""What an instance is expected to use, what it adds to a window (credits), and what a leaver leaves in it (debits)."""
