"""`windward evictor`: carries out proposed moves of pods by evicting them, and steers replacements to the target."""
