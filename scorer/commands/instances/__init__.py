"""Commands about instances: confirm, update, release, instances, why."""
