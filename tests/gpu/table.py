"""The one table that run.sh prints, in Markdown."""

import collections


def number(value):
    """Three or more digits that say something."""
    if value is None:
        return "not run"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def cell(text):
    return str(text).replace("|", "/").replace("\n", " ")


def lines_of(header, rows):
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield "| " + " | ".join(cell(entry) for entry in row) + " |"


def of_host(host, manifest):
    gpus = collections.Counter(f"{gpu['name']}, {gpu['memory_gib']} GiB" for gpu in host.gpus)
    yield "GPUs: " + (", ".join(f"{count} x {name}" for name, count in gpus.items()) or f"none ({host.trouble})")
    yield f"driver: for CUDA up to {host.cuda}" if host.cuda else "driver: none that answers"
    for soname, path in host.libraries.items():
        yield f"{soname}: {path or 'not found'}"
    yield f"bundle: {manifest['commit']}, --config={manifest['config']}"


def ratio(row):
    return f"{row.ours / row.peer:.2f}" if row.ours is not None and row.peer else ""


def totals(results, benchmarks, seconds, budget):
    counts = collections.Counter()
    for result in results:
        counts["passed"] += result.passed
        counts["failed"] += result.failed
        counts["skipped"] += result.skipped
        counts["not run"] += result.outcome == "not run"
    ran = sum(outcome == "passed" for outcome in benchmarks.values())
    bad = sum(outcome in ("failed", "hung") for outcome in benchmarks.values())
    return (f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped, {counts['not run']} tests not run; "
            f"{ran} benchmarks ran, {bad} failed, {len(benchmarks) - ran - bad} not run; {seconds:.0f} s of {budget:.0f}")


def render(host, manifest, results, rows, last_line):
    """All of it; what failed comes first."""
    order = ["hung", "failed", "not run", "skipped", "passed"]
    ordered = sorted(results, key=lambda result: (order.index(result.outcome), result.name))
    lines = [f"- {line}" for line in of_host(host, manifest)]
    lines += ["", *lines_of(["test", "outcome", "passed", "failed", "skipped", "s", "why"],
                            [(result.name, result.outcome, result.passed, result.failed, result.skipped, f"{result.seconds:.1f}",
                              result.note) for result in ordered])]
    lines += ["", *lines_of(["benchmark", "unit", "ours", "peer's", "ours / peer's", "peer", "note"],
                            [(row.what, row.unit, number(row.ours), number(row.peer), ratio(row), row.peer_name, row.note)
                             for row in rows])]
    return "\n".join(lines + ["", last_line]) + "\n"
