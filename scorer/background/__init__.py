"""What a scorer does besides answering: it follows the snapshot, sweeps, checks, learns, and says that it is there."""
