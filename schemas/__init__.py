"""The data that processes exchange. Imports nothing of the other packages.

`schemas.process` is no schema, but the only place that both halves may import. `json_schema` and `client_keywords`
write the files that are made from the types.
"""
