"""The RPC: the loop that takes queries and answers them, and one module a method in `methods`."""
