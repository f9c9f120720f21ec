"""Plans of moves that balance a fleet, with their reasons. Pure: values in, a plan out.

advice           the plan of a fleet by the settings of its profile: start here
by_overload      the plan by expected overload or variance, and its totals; `gates`: which machines give and take
by_thresholds    the plan by LowNodeLoad (`scorer.planning.thresholds`)
scene            the inputs of a plan; `loads`, `cost` are its parts
objective        the measure of a move's gain
search           step by step, each sees those before; `moves` and `tentative` are its data
rounds           the state kept between rounds
proposals        the outcomes of a planner's open proposals, and new ones
"""
