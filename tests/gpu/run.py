"""Runs a bundle of GPU tests and benchmarks. Called by run.sh, which says how."""

import argparse
import contextlib
import json
import pathlib
import signal
import sys
import tarfile
import tempfile
import time

from tests.gpu import benchmarks
from tests.gpu import cases
from tests.gpu import host as hosts
from tests.gpu import programs
from tests.gpu import table

ROOT = pathlib.Path(__file__).absolute().parents[2]
DEFAULT_BUNDLE = ROOT / ".gpu" / "ringmaster-gpu.tar.xz"
FAILED, USAGE, OUT_OF_TIME = 1, 2, 3
FOR_THE_TABLE = 8.0  # seconds of the budget


class CannotStart(Exception):
    """One line that says what is wrong and what to do."""


class Stopped(Exception):
    """By a signal."""


def parse(arguments):
    parser = argparse.ArgumentParser(prog="tests/gpu/run.sh", description="Runs a bundle of GPU tests and benchmarks.")
    parser.add_argument("bundle", nargs="?", help="the file that run.sh --build made, or the folder it was unpacked into")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / ".gpu" / "out", help="where logs and the table go")
    parser.add_argument("--budget", type=float, default=570.0, help="seconds for all")
    parser.add_argument("--tests_share", type=float, default=0.5, help="of the budget, which tests may use up")
    parser.add_argument("--jobs", type=int, default=4, help="tests at once")
    args = parser.parse_args(arguments)
    if args.budget <= FOR_THE_TABLE or args.jobs < 1 or not 0 < args.tests_share <= 1:
        parser.error(f"--budget must be more than {FOR_THE_TABLE:.0f}, --jobs at least 1, --tests_share above 0 and at most 1")
    return args


@contextlib.contextmanager
def opened(bundle):
    """The folder of the bundle."""
    if bundle is None:
        bundle = ROOT if (ROOT / "manifest.json").exists() else DEFAULT_BUNDLE
    bundle = pathlib.Path(bundle)
    if bundle.is_dir():
        if not (bundle / "manifest.json").exists():
            raise CannotStart(f"{bundle} has no manifest.json: it is no unpacked bundle")
        yield bundle.resolve()
        return
    if not bundle.exists():
        raise CannotStart(f"there is no bundle {bundle}: make it with tests/gpu/run.sh --build where Bazel and the CUDA toolkit are")
    with tempfile.TemporaryDirectory() as directory:
        try:
            with tarfile.open(bundle) as file:
                file.extractall(directory)
        except (tarfile.TarError, OSError, EOFError) as error:
            raise CannotStart(f"{bundle} cannot be unpacked: {str(error).splitlines()[0]}") from None
        tops = [path.parent for path in pathlib.Path(directory).glob("*/manifest.json")]
        if not tops:
            raise CannotStart(f"{bundle} has no manifest.json: it is no bundle of run.sh --build")
        yield tops[0]


def read_manifest(root):
    try:
        manifest = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
        return {key: manifest[key] for key in ("commit", "config", "tests", "benchmarks")}
    except (ValueError, KeyError, OSError) as error:
        raise CannotStart(f"{root / 'manifest.json'} is none of run.sh --build: {error!r}") from None


def tell(result, log=None):
    note = f": {result.note}" if result.note else ""
    print(f"{result.outcome:>7} {result.name} ({result.seconds:.1f} s){note}", flush=True)
    if log and result.outcome in ("failed", "hung") and log.exists():
        print("".join(f"        {line}\n" for line in programs.telling_lines(log)), end="", flush=True)


def exit_status(results, outcomes):
    kinds = [result.outcome for result in results] + list(outcomes.values())
    if "failed" in kinds or "hung" in kinds:
        return FAILED
    return OUT_OF_TIME if any(result.outcome == "not run" for result in results) or "out of time" in kinds else 0


class Session:
    """The results so far; the table can be made at any time."""

    def __init__(self, root, args, started):
        self.root, self.args, self.started = root, args, started
        self.manifest = read_manifest(root)
        self.logs = args.out / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.host = hosts.look()
        self.results, self.rows, self.outcomes = [], [], {}

    def run_tests(self):
        deadline = self.started + self.args.budget * self.args.tests_share
        logs = {test["name"]: self.logs / f"{test['log']}.log" for test in self.manifest["tests"]}
        runner = cases.Runner(self.root, self.logs, self.host, deadline, lambda result: tell(result, logs[result.name]))
        self.results = runner.results
        runner.run(self.manifest["tests"], self.args.jobs)

    def run_benchmarks(self):
        deadline = self.started + self.args.budget - FOR_THE_TABLE
        for benchmark in benchmarks.of_bundle(self.manifest):
            rows, outcome, seconds = benchmarks.run(benchmark, self.root, self.logs, self.host, deadline)
            self.rows += rows
            self.outcomes[benchmark.name] = outcome
            note = rows[-1].note if outcome != "passed" and rows else ""
            tell(cases.Result(benchmark.name, outcome, 0, 0, 0, seconds, note), self.logs / f"{benchmark.name}.log")

    def finish(self):
        last = table.totals(self.results, self.outcomes, time.monotonic() - self.started, self.args.budget)
        text = table.render(self.host, self.manifest, self.results, self.rows, last)
        (self.args.out / "table.md").write_text(text, encoding="utf-8")
        document = {"host": self.host._replace(environment=None)._asdict(), "commit": self.manifest["commit"],
                    "config": self.manifest["config"], "tests": [result._asdict() for result in self.results],
                    "benchmarks": [row._asdict() for row in self.rows]}
        (self.args.out / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        print("\n" + text, end="", flush=True)


def stop(number, _):
    raise Stopped(number)


def main(arguments=None):
    started = time.monotonic()
    args = parse(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        args.out = args.out.resolve()
        with opened(args.bundle) as root:
            session = Session(root, args, started)
            try:
                session.run_tests()
                session.run_benchmarks()
            except Stopped as signals:
                session.finish()
                return 128 + signals.args[0]
            session.finish()
            return exit_status(session.results, session.outcomes)
    except (CannotStart, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    except Stopped as signals:
        return 128 + signals.args[0]


if __name__ == "__main__":
    sys.exit(main())
