"""What agents, operators and processes say: samples, reports on instances, facts, proposals of moves."""
