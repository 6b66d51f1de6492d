"""Runs the tests of a bundle and reports the outcome of each."""

import collections
import concurrent.futures
import os
import pathlib
import shutil
import sys
import threading
import time
import xml.etree.ElementTree as xml

from tests import count_cases
from tests.gpu import host as hosts
from tests.gpu import programs

# outcome: "passed", "failed", "hung", "skipped" or "not run". The counts are of cases.
Result = collections.namedtuple("Result", "name outcome passed failed skipped seconds note")

WORTH_STARTING = 1.0  # seconds: with less left nothing is begun


def command_of(test, root):
    if "module" in test:
        return [sys.executable, "-m", test["module"], *test["args"]]
    return [str(root / "bin" / test["program"]), *test["args"]]


def environment_of(test, root, scratch, report, host):
    environment = dict(host.environment, XML_OUTPUT_FILE=str(report), TEST_TMPDIR=str(scratch), OPENBLAS_NUM_THREADS="1",
                       GTEST_COLOR="no")
    if test.get("directory"):
        runfiles = root / test["directory"]
        environment.update(TEST_SRCDIR=str(runfiles.parent), RUNFILES_DIR=str(runfiles.parent), TEST_WORKSPACE="ringmaster",
                           PYTHONPATH=hosts.python_path(host, runfiles, root))
    return environment


def read_report(report):
    """(counts by outcome, names of failed cases, reasons to skip) of a test.xml; None if it wrote none."""
    counts, failures, reasons = collections.Counter(), [], []
    try:
        for name, outcome, reason in count_cases.cases_of(report):
            counts[outcome] += 1
            if outcome == "failed":
                failures.append(name)
            elif outcome == "skipped":
                reasons.append(reason or "disabled")
    except (OSError, xml.ParseError):
        return None
    return counts, failures, reasons


def judge(name, ended, limit, is_limit_own, cases, log):
    """The Result of a program that has ended, or was killed after `limit` seconds, which are its own or all that was left."""
    note = f"; {ended.note}" if ended.note else ""
    if ended.status is None and not is_limit_own:
        return Result(name, "not run", 0, 0, 0, ended.seconds, f"killed after {ended.seconds:.0f} s: no time was left{note}")
    if ended.status is None:
        return Result(name, "hung", 0, 1, 0, ended.seconds, f"killed: it had not ended within {limit:.0f} s{note}; see {log}")
    counts, failures, reasons = cases or (collections.Counter(), [], [])
    if ended.status != 0 or failures:
        how = f"signal {-ended.status}" if ended.status < 0 else f"exit status {ended.status}"
        what = ", ".join(failures[:3]) + (f" and {len(failures) - 3} more" if len(failures) > 3 else "") if failures else how
        return Result(name, "failed", counts["passed"], max(counts["failed"], 1), counts["skipped"], ended.seconds,
                      f"{what}{note}; see {log}")
    reason = "; ".join(dict.fromkeys(reasons))
    if counts["skipped"] and not counts["passed"]:
        return Result(name, "skipped", 0, 0, counts["skipped"], ended.seconds, reason)
    return Result(name, "passed", counts["passed"] or 1, 0, counts["skipped"], ended.seconds, reason)


class Runner:
    """`deadline` is of time.monotonic(). `tell` is called with each Result, by one thread at a time."""

    def __init__(self, root, out, host, deadline, tell):
        self._root, self._out, self._host, self._deadline = pathlib.Path(root), pathlib.Path(out), host, deadline
        self._tell = tell
        self._lock = threading.Lock()
        self._is_stopped = False
        self.results = []

    def run(self, tests, jobs):
        """Runs several at once, except for those that must run alone, which come last. An exception (a signal's) ends those that run."""
        shared = [test for test in tests if not test["is_alone"]]
        with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
            try:
                list(pool.map(self._run_one, shared))
            except BaseException:
                self._is_stopped = True
                programs.kill_all()
                raise
        for test in tests:
            if test["is_alone"]:
                self._run_one(test)
        return self.results

    def _run_one(self, test):
        result = self._result_of(test)
        with self._lock:
            self.results.append(result)
            self._tell(result)

    def _result_of(self, test):
        left = self._deadline - time.monotonic()
        if self._is_stopped:
            return Result(test["name"], "not run", 0, 0, 0, 0.0, "interrupted")
        if left < WORTH_STARTING:
            return Result(test["name"], "not run", 0, 0, 0, 0.0, "no time was left")
        limit = min(test["seconds"], left)
        log = self._out / f"{test['log']}.log"
        report = self._out / f"{test['log']}.xml"
        scratch = self._out / "scratch" / test["log"]
        for old in (log, report):
            old.unlink(missing_ok=True)
        scratch.mkdir(parents=True, exist_ok=True)
        directory = self._root / test["directory"] if test.get("directory") else scratch
        ended = programs.run(command_of(test, self._root), log, limit, environment_of(test, self._root, scratch, report, self._host),
                             directory)
        shutil.rmtree(scratch, ignore_errors=True)
        if self._is_stopped:
            return Result(test["name"], "not run", 0, 0, 0, ended.seconds, "interrupted")
        cases = read_report(report) if os.path.exists(report) else None
        return judge(test["name"], ended, limit, limit == test["seconds"], cases, log)
