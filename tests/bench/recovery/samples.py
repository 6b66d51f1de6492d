"""Figures of a series of recoveries: percentiles, and a table of them."""

import math


def percentile(values, share):
    """The nearest-rank percentile: the least of `values` that a `share` of them (0 to 1) does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summary(values):
    """None if there are no values."""
    if not values:
        return None
    return {"count": len(values), "p50": percentile(values, 0.5), "p90": percentile(values, 0.9),
            "p99": percentile(values, 0.99), "max": max(values)}


def milliseconds(seconds):
    return "-" if seconds is None else f"{1000 * seconds:.1f}"


def row(name, values):
    """A line of a table in Markdown with HEADER."""
    figures = summary(values) or {"count": 0}
    return f"| {name} | {figures['count']} | " + " | ".join(
        milliseconds(figures.get(key)) for key in ("p50", "p90", "p99", "max")) + " |"


HEADER = "| | samples | p50, ms | p90, ms | p99, ms | max, ms |\n|---|---|---|---|---|---|"
