#!/usr/bin/env python3
"""Counts the test cases of one `bazel test` from its build events.

usage: count_cases.py EVENTS_JSON

Prints "PASSED FAILED SKIPPED" on the first line, then one line for each failed case, then one for each reason to skip.
A test program counts by its cases (GoogleTest writes them to test.xml); a shell test, a crash, a time-out and a target
that does not build count as one.
"""

import collections
import json
import sys
import urllib.parse
import xml.etree.ElementTree


def read_events(path):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                return  # the last line of an interrupted run


def xml_path(result):
    for output in result.get("testActionOutput", []):
        if output["name"] == "test.xml" and output.get("uri", "").startswith("file://"):
            return urllib.parse.unquote(output["uri"][len("file://"):])
    return None


def cases_of(path):
    """Yields (name, "passed" | "failed" | "skipped", reason) for each case in a test.xml."""
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        name = case.get("name", "")
        if case.get("classname"):
            name = case.get("classname") + "." + name
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            yield name, "failed", ""
        elif skipped is not None or case.get("result") == "skipped" or case.get("status") == "notrun":
            reason = skipped.get("message", "") if skipped is not None else ""
            yield name, "skipped", reason.strip().split("\n")[-1]
        else:
            yield name, "passed", ""


def count_result(label, result, counts, failures, skips):
    path = xml_path(result)
    failed_here = 0
    if path:
        try:
            for name, outcome, reason in cases_of(path):
                counts[outcome] += 1
                if outcome == "failed":
                    failed_here += 1
                    failures.append(f"{label} {name}")
                elif outcome == "skipped":
                    skips[reason or "disabled"] += 1
        except (OSError, xml.etree.ElementTree.ParseError):
            path = None
    succeeded = result.get("status") == "PASSED"
    if not succeeded and not failed_here:
        counts["failed"] += 1
        failures.append(f"{label} ({result.get('status', 'NO_STATUS')})")
    elif succeeded and not path:
        counts["passed"] += 1


def main(path):
    counts, failures, skips = collections.Counter(), [], collections.Counter()
    last_attempt, built = {}, {}
    for event in read_events(path):
        ids = event.get("id", {})
        if "testResult" in ids and "testResult" in event:
            key = ids["testResult"]
            last_attempt[key["label"], key.get("run", 1), key.get("shard", 1)] = event["testResult"]
        elif "targetCompleted" in ids:
            built[ids["targetCompleted"]["label"]] = event.get("completed", {}).get("success", False)
    for (label, _, _), result in sorted(last_attempt.items()):
        count_result(label, result, counts, failures, skips)
    tested = {label for label, _, _ in last_attempt}
    for label, success in sorted(built.items()):
        if not success and label not in tested:
            counts["failed"] += 1
            failures.append(f"{label} (does not build)")
    print(counts["passed"], counts["failed"], counts["skipped"])
    for failure in failures:
        print("  FAILED ", failure)
    for reason, count in sorted(skips.items()):
        print(f"  skipped {count}: {reason}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: count_cases.py EVENTS_JSON")
    main(sys.argv[1])
