"""What every process is made of: settings, command line, output for people, connections, logs, HTTP pages."""
