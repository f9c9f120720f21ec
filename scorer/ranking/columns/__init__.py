"""The table of columns that plugins read by name, and how each is computed."""
