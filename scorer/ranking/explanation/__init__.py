"""A ranking in words: the terms of a machine's score, the refused machines by reason."""
