"""Filters and scores over all machines at once, the profiles that combine them, and the answer in words.

rank          the decision: filters, scores, normalisation, total. Start here; `ranking` is what it returns
filters/      which machines may take the request
scores/       how good each is
profiles/     which filters and scores run together
machines/     all machines as a decision sees them, with what is kept between decisions
columns/      the table of columns that plugins read
estimates/    expected use, credits, debits
formulas/     what several plugins compute
explanation/  a ranking in words
"""
