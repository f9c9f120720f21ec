"""The load of many machines, simulated or recorded, as samples. Pure."""
