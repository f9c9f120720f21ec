"""Plans of moves that balance a fleet, with their reasons. Pure: values in, a plan out.

advice           the plan of a fleet by the settings of its profile: start here
scene            the inputs of a plan; `loads`, `measured`, `candidates`, `cost`, `history` are its parts
objective        the measure of a move's gain
plan             step by step, each sees those before; `moves` and `draft` are its data
world            the plan of a fleet by expected overload or variance; `gates`: which machines give and take
leaving          the plan of a fleet by thresholds
rounds           the state kept between rounds
totals           the fleet before and after

Koordinator's LowNodeLoad:

pool             the machines and instances that are balanced, as columns
thresholds       when a machine is over, and when it is under
anomaly          how many rounds in a row make a machine a source
eviction_order   which instance of a machine goes first
low_node_load    one round by the rules of Koordinator's descheduler; `sides`: the two comparisons it makes
"""
