"""YAML read by libyaml where it is there: the parser in Python takes 2 s of a core for the tests of the alerts."""

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(text):
    return yaml.load(text, Loader=LOADER)


def read_all_yaml(text):
    return list(yaml.load_all(text, Loader=LOADER))
