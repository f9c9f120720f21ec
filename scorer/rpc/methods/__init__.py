"""The methods of the RPC, one per module, and their shared code."""
