"""The parts that every process shares: settings, command line, output for people, connections, logs, HTTP pages."""
