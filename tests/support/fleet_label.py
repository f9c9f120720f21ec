"""Pages of metrics without the label that all series have."""

import re


def without_fleet(page):
    """Return a page whose series have no label ``fleet``.

    >>> without_fleet('a{fleet="x"} 1'), without_fleet('a{b="1",fleet="x"} 1'), without_fleet('a{fleet="x",g="1"} 1')
    ('a 1', 'a{b="1"} 1', 'a{g="1"} 1')
    """
    return re.sub(r',?\bfleet="[^"]*"', "", re.sub(r'\bfleet="[^"]*",', "", page)).replace("{}", "")
