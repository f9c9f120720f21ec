"""Queries to a Prometheus over its HTTP interface, as Grafana makes them."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request


class QueryError(Exception):
    """Prometheus refused a query; the message is its own."""


class Prometheus:
    def __init__(self, url):
        self._url = url.rstrip("/")

    def get(self, path, **parameters):
        """Return ``data`` of the answer; raises QueryError."""
        address = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}"
        try:
            with urllib.request.urlopen(address, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise QueryError(json.loads(error.read()).get("error", "")) from None

    def at(self, expression, time_s):
        found = self.get("query", query=expression, time=time_s)
        if found["resultType"] == "scalar":
            return [({}, [(found["result"][0], float(found["result"][1]))])]
        return [(each["metric"], [(each["value"][0], float(each["value"][1]))]) for each in found["result"]]

    def over(self, expression, start_s, end_s, step_s):
        found = self.get("query_range", query=expression, start=start_s, end=end_s, step=step_s)
        return [
            (each["metric"], [(time_s, float(value)) for time_s, value in each["values"]]) for each in found["result"]
        ]

    def variable(self, query):
        """Return the values of a variable: of ``label_values(selector, label)``."""
        if match := re.fullmatch(r"label_values\((.+),\s*(\w+)\)", query):
            return list(self.get(f"label/{match[2]}/values", **{"match[]": match[1]}))
        raise QueryError(f"no query of a variable: {query}")

    def metrics(self):
        return set(self.get("label/__name__/values"))
