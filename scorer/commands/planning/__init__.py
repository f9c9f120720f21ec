"""Commands that plan: drain, plan, rebalance, capacity.

carry_out   carries out the steps of a plan through a scorer, and has the rule after a refusal
"""
