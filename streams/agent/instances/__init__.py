"""What each instance on this machine uses: control groups and processes, found and read at a pace of their own."""
