"""Plans of moves that balance a fleet, with their reasons. Pure: values in, a plan out.

advice           the plan of a fleet by the settings of its profile: start here; LowNodeLoad's is there
by_overload      the plan by expected overload or variance, and its totals; `gates`: which machines give and take
scene            the inputs of a plan; `loads`, `cost` are its parts
search           step by step, each sees those before, and the measure of a gain; `moves` and `tentative` are its data
rounds           the state kept between rounds
proposals        the outcomes of a planner's open proposals, and new ones
"""
