"""Man pages and completions, made from the commands' parsers; the wheels ship the files, not this package's code."""
