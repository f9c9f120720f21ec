"""Filters and scores over all machines at once, the profiles that combine them, and the answer in words.

rank         the decision: filters, scores, normalisation, total. Start here
inputs       what it is made from besides the request; `FleetState`: the fleet of a file, or the running one
staleness    what it does while the pipeline is silent
plugin       the base of the built-in filters and scores; `scorer.plugins` is for those of other packages
explain      a ranking in words
survive      room for the machines that may be lost
calibration  how often what a score predicts comes true
filters/     which machines may take the request
scores/      how good each is
profiles/    which filters and scores run together
machines     all machines as a decision sees them: rows, what-ifs, columns
kernel/      the compiled part: how rows are made, and the loops over them
estimates/   expected use: stated, learned or measured
formulas/    what several plugins compute
"""
