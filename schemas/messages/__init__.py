"""The messages of agents, operators and processes: samples, reports on instances, facts, proposals of moves."""
