"""Chaos: a real cluster on network namespaces, real faults, one seed. Needs root and iproute2; see README.md.

  /usr/bin/python3 -m tests.chaos.run --seconds=60 --seed=7 --workers=4
"""

import argparse
import contextlib
import dataclasses
import pathlib
import shutil
import sys
import tempfile
import time

from tests.chaos import chaos as chaos_module
from tests.chaos import scenarios
from tests.integration.cluster import Cluster, Hosts, namespaces_unavailable


def parse(arguments=None):
    parser = argparse.ArgumentParser(description="Breaks a real cluster at random and checks what becomes of its job.")
    parser.add_argument("--seconds", type=float, default=60, help="how long faults are injected")
    parser.add_argument("--seed", type=int, default=None, help="replays the choices of a run; by default the time")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--servers", type=int, default=0, help="parameter servers, at least 2; by default gradients are all-reduced")
    parser.add_argument("--min", type=int, default=2, dest="workers_min", help="fewest workers that the job runs with")
    parser.add_argument("--budget", type=float, default=2, help="seconds, the coordinator's --failure_budget")
    parser.add_argument("--bound", type=float, default=30, help="seconds within which a step must follow a fault")
    parser.add_argument("--kinds", default=",".join(scenarios.KINDS), help="of faults, with commas")
    parser.add_argument("--no_script", action="store_true", help="random faults only, not one of each kind first")
    parser.add_argument("--logs", help="directory for the logs of a run that fails")
    args = parser.parse_args(arguments)
    args.kinds = tuple(args.kinds.split(","))
    unknown = set(args.kinds) - set(scenarios.KINDS)
    if unknown:
        parser.error(f"--kinds: {', '.join(sorted(unknown))}: expected {', '.join(scenarios.KINDS)}")
    if args.workers < 3 or not 1 <= args.workers_min < args.workers:
        parser.error("--workers must be at least 3 and --min less than that")
    if args.servers == 1 or args.servers < 0:
        parser.error("--servers must be 0 or at least 2, for there is a replica of each shard")
    if args.seed is None:
        args.seed = int(time.time())
    return args


@contextlib.contextmanager
def cluster_under(options, kind=chaos_module.Chaos, logs=None):
    """A Chaos of that kind with its hosts and processes; keeps their logs in `logs` if it fails, and then says where."""
    with Hosts(options.workers + options.servers + 1) as hosts, Cluster() as cluster:
        chaos = kind(cluster, hosts, options)
        yield chaos
        if chaos_module.failed(chaos):
            logs = pathlib.Path(logs or tempfile.mkdtemp(prefix="ringmaster-chaos-")) / f"seed-{options.seed}"
            shutil.copytree(cluster.directory, logs, dirs_exist_ok=True)
            print(f"logs: {logs}", file=sys.stderr, flush=True)


def run(options, logs=None):
    """Returns (whether all went well, the report)."""
    print(f"chaos: seed {options.seed}", file=sys.stderr, flush=True)
    with cluster_under(options, logs=logs) as chaos:
        chaos.run()
    text = chaos_module.table(chaos)
    if not chaos_module.failed(chaos):
        return True, f"{text}\nchaos: PASSED, {len(chaos.results)} faults, seed {options.seed}"
    return False, f"{text}\nchaos: FAILED; again: --seed={options.seed}"


def main():
    args = parse()
    reason = namespaces_unavailable()
    if reason:
        sys.exit(f"chaos: {reason}")
    fields = {field.name for field in dataclasses.fields(chaos_module.Options)}
    options = chaos_module.Options(scripted=not args.no_script,
                                   **{key: value for key, value in vars(args).items() if key in fields})
    is_good, text = run(options, args.logs)
    print(text)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
