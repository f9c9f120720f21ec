"""Commands about machines: list, show, operators' rules, forget, rename."""
