"""Commands that plan: drain, plan, rebalance, capacity, evict."""
