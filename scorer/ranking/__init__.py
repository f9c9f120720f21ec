"""Filters and scores over all machines at once, the profiles that combine them, and the answer in words.

rank          the decision: filters, scores, normalisation, total. Start here
inputs        what it is made from besides the request; `fleet_state`: the fleet of a file, or the running one
ranking       what it returns; `normalise`, `staleness`, `scope`: its rules
seen          the machines as each plugin of a profile sees them; `class_sums`: the sums by class of all machines
filters/      which machines may take the request
scores/       how good each is
profiles/     which filters and scores run together
machines/     all machines as a decision sees them, with what is kept between decisions
columns/      the table of columns that plugins read
estimates/    expected use, credits, debits
formulas/     what several plugins compute
explanation/  a ranking in words
"""
