"""`windward doctor`: checks all parts, says what is wrong."""
