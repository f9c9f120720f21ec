"""Queries and answers: the envelope, the parameters of each method, the request of an instance, the results."""
