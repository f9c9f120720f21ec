"""Plans of moves that balance a fleet, with their reasons. Pure: values in, a plan out.

advice           the plan of a fleet by the settings of its profile: start here; LowNodeLoad's is there
by_overload      the plan by expected overload, its totals, and which machines give and take
repair           the fewest moves that mend broken rules
scene            the inputs of a plan
tentative        step by step, each sees those before; and what a move costs
rounds           the state kept between rounds
proposals        the outcomes of a planner's open proposals, and new ones
"""
