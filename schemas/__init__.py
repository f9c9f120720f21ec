"""The data that processes exchange. Imports nothing of the other packages.

`schemas.process` is no schema; it is here because only this package may be imported by both halves. `json_schema` and
`client_keywords` write the files that are made from the types.
"""
