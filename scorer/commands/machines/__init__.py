"""Commands about machines: the list of them, one machine's page, operators' rules, forget, rename."""
