"""Man pages and completions, made from the commands' own parsers and shipped in the wheels; none of it runs there."""
