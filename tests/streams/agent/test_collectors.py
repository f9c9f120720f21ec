"""The collectors together."""

from schemas.resources import RESOURCES
from streams.agent.collectors import COLLECTORS
from streams.agent.settings import AgentSettings


def test_every_resource_has_one_collector():
    """The tuple lists one collector a resource, in the order of the resource axis, each with a handbook page."""
    assert tuple(kind.resource for kind in COLLECTORS) == RESOURCES
    assert all(kind.__doc__ and kind.configured(AgentSettings()) for kind in COLLECTORS)
