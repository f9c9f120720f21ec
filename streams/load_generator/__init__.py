"""The fleet: many machines' samples from one process, simulated or recorded, published as the agent publishes."""
