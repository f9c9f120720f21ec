"""The data that processes exchange. Imports nothing of the other packages.

messages/   what agents, operators and processes say
tables/     values in Redis that numpy reads without a loop
rpc/        queries, requests, answers
values/     times, amounts, numbers and errors, one by one
names       every key, topic and TTL; `resources`: the axis of resources
json_schema, asyncapi and client_results write the files that are made from these
process/    what every process is made of: settings, command line, logs, HTTP pages. No schema, but the only place that
            both halves may import
"""
