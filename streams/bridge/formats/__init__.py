"""The measurements of other agents as samples. Pure."""
