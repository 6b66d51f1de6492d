"""Soak: a thousand random faults as fast as they are survived, then an hour with one every 15 s; a report of both.

  /usr/bin/python3 -m tests.chaos.soak --out=soak.md

As tests/chaos/run.py, it needs root, iproute2 and RINGMASTER_BIN_DIR. Three jobs, one after the other: workers that
all-reduce take half of the faults, workers with parameter servers the other half, and the hour is again one of workers. One
worker is never hit, and in the hour the coordinator is not killed, so that what piles up in them shows.
"""

import argparse
import dataclasses
import pathlib
import re
import statistics
import sys
import time

from tests.bench.recovery import samples
from tests.chaos import chaos as chaos_module
from tests.chaos import run
from tests.chaos import scenarios
from tests.integration.cluster import namespaces_unavailable

# Seconds that a fault of a kind may cost, from its last part to the next committed step that was seen: three quarters of the
# failure budget until a silent member is known to be lost, and a moment to go on. (The coordinator is away for up to one.)
BUDGETS = {"kill": 0.5, "kill_newcomer": 0.5, "kill_several": 1.0, "kill_twice": 1.0, "freeze": 2.0, "link_down": 2.5, "mute": 2.5,
           "deafen": 2.5, "cut_coordinator": 0.5, "coordinator": 2.0, "coordinator_and_worker": 2.5, "freeze_all": 1.0,
           "freeze_coordinator": 0.5, "coordinator_link": 1.0, "reset": 0.5, "cut_pair": 3.0}
KILLS_COORDINATOR = ("coordinator", "coordinator_and_worker")
SPARED = "w0"
PHASES = ("workers", "servers", "slow")


@dataclasses.dataclass
class Use:
    """The memory, descriptors and threads of a process."""
    pid: int
    resident_bytes: int
    descriptors: int
    threads: int


def use_of(pid):
    process = pathlib.Path(f"/proc/{pid}")
    fields = dict(re.findall(r"^(VmRSS|Threads):\s+(\d+)", (process / "status").read_text(), re.MULTILINE))
    return Use(pid, int(fields["VmRSS"]) * 1024, len(list((process / "fd").iterdir())), int(fields["Threads"]))


@dataclasses.dataclass
class Phase:
    """A job under faults, and what became of it."""
    name: str
    results: list
    failures: list
    seconds: float
    steps: int
    lost_steps: int
    used: dict         # {process: (Use at its begin, Use at its end)}, of those that lived all along
    is_paced: bool = False   # its faults came at an interval, so that goodput says something


class Soak(chaos_module.Chaos):
    """A Chaos that looks at what its longest-lived processes use, once the job has settled and before it ends."""

    def __init__(self, *args):
        super().__init__(*args)
        self._used = {}

    def _try(self, kind):
        super()._try(kind)
        for name, pid in {SPARED: self.members().get(SPARED), "coordinator": self.coordinator_pid()}.items():
            if pid is not None:
                use = use_of(pid)
                first, _ = self._used.get(name, (use, use))
                self._used[name] = (first, use)

    def used(self):
        return {name: uses for name, uses in self._used.items() if uses[0].pid == uses[1].pid}


def recoveries(results):
    """{kind: seconds}, of the faults that were survived."""
    kinds = {}
    for result in results:
        if result.recovery == result.recovery:
            kinds.setdefault(result.fault.kind, []).append(result.recovery)
    return kinds


def stalled(results):
    """Seconds in which no step was made."""
    return sum(sum(seconds) for seconds in recoveries([each for each in results if each.fault.stops_training()]).values())


def wrong_verdicts(phases):
    return sum(bool(result.failures) for phase in phases for result in phase.results)


def judge(phases, goodput):
    """What the soak has shown that it must not, as sentences."""
    found = [f"{phase.name}: {failure}" for phase in phases for failure in phase.failures]
    found += [f"{phase.name}: no fault was survived" for phase in phases if not recoveries(phase.results)]
    lost = sum(phase.lost_steps for phase in phases)
    if lost:
        found.append(f"{lost} steps were lost")
    faults = sum(len(phase.results) for phase in phases)
    if wrong_verdicts(phases) * 100 > faults:
        found.append(f"{wrong_verdicts(phases)} of {faults} verdicts were wrong")
    for phase in phases:
        allowed = sum(BUDGETS[result.fault.kind] for result in phase.results)
        if not phase.is_paced and stalled(phase.results) > allowed:
            found.append(f"{phase.name}: stood still for {stalled(phase.results):.0f} s, more than its faults' {allowed:.0f} s")
        if phase.is_paced and 1 - stalled(phase.results) / phase.seconds < goodput:
            found.append(f"{phase.name}: goodput below {goodput:.0%}")
    for phase in phases:
        found += [f"{phase.name}: {name} {growth}" for name, uses in phase.used.items() for growth in growths(*uses)]
    return found


def growths(first, last):
    """What a process has more of than it should: a tenth, and a little for what comes and goes with a fault."""
    checks = (("MiB", first.resident_bytes / 2**20, last.resident_bytes / 2**20, 16),
              ("descriptors", first.descriptors, last.descriptors, 16), ("threads", first.threads, last.threads, 8))
    return [f"grew from {before:.0f} to {after:.0f} {unit}" for unit, before, after, slack in checks if after > 1.1 * before + slack]


def report(phases, found):
    """The report, in Markdown."""
    lines = ["| phase | faults | minutes | steps | lost | stood still, s | goodput | wrong verdicts |", "|---|---|---|---|---|---|---|---|"]
    for phase in phases:
        lines.append(f"| {phase.name} | {len(phase.results)} | {phase.seconds / 60:.0f} | {phase.steps:,} | {phase.lost_steps} "
                     f"| {stalled(phase.results):.0f} | {1 - stalled(phase.results) / phase.seconds:.1%} | {wrong_verdicts([phase])} |")
    lines += ["", "| fault | times | p50, s | p99, s | most, s | budget, s |", "|---|---|---|---|---|---|"]
    of_all = recoveries([result for phase in phases for result in phase.results])
    for kind, seconds in sorted(of_all.items(), key=lambda entry: statistics.median(entry[1])):
        lines.append(f"| `{kind}` | {len(seconds)} | {statistics.median(seconds):.3f} | {samples.percentile(seconds, 0.99):.3f} "
                     f"| {max(seconds):.3f} | {BUDGETS[kind]:g} |")
    lines += ["", "| process | phase | MiB | descriptors | threads |", "|---|---|---|---|---|"]
    for phase in phases:
        for name, (first, last) in phase.used.items():
            lines.append(f"| {name} | {phase.name} | {first.resident_bytes / 2**20:.0f} -> {last.resident_bytes / 2**20:.0f} "
                         f"| {first.descriptors} -> {last.descriptors} | {first.threads} -> {last.threads} |")
    lines += [""] + [f"WRONG: {each}" for each in found]
    for phase in phases:
        lines += [f"WRONG: {phase.name}: {result.fault}: {failure}" for result in phase.results for failure in result.failures]
    return "\n".join(lines) + "\n"


def parse(arguments=None):
    parser = argparse.ArgumentParser(description="Breaks a real cluster for hours, and reports what it cost.")
    parser.add_argument("--faults", type=int, default=1000, help="as fast as they are survived")
    parser.add_argument("--minutes", type=float, default=100, help="most time for them")
    parser.add_argument("--slow_minutes", type=float, default=60, help="then, with one fault every --every seconds")
    parser.add_argument("--every", type=float, default=15)
    parser.add_argument("--goodput", type=float, default=0.95, help="least share of the slow part's time in which steps were made")
    parser.add_argument("--seed", type=int, default=None, help="of the choices; by default the time")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--phases", default=",".join(PHASES), help="which of them, with commas; by default all")
    parser.add_argument("--out", help="file for the report; it is printed too")
    parser.add_argument("--logs", help="directory for the logs of a phase that fails")
    args = parser.parse_args(arguments)
    if args.workers < 4 or args.faults < 2 or min(args.minutes, args.slow_minutes) <= 0 or args.every < 0:
        parser.error("--workers must be at least 4, --faults at least 2, and times positive")
    args.phases = tuple(args.phases.split(","))
    if not set(args.phases) <= set(PHASES):
        parser.error(f"--phases: {', '.join(args.phases)}: expected some of {', '.join(PHASES)}")
    if args.seed is None:
        args.seed = int(time.time())
    return args


def plan(args):
    """The phases: (name, options)."""
    common = {"workers": args.workers, "scripted": False, "spared": (SPARED,), "cancels": True}
    fast = {"seconds": args.minutes * 30, "faults": args.faults // 2, **common}
    patient = tuple(kind for kind in scenarios.KINDS if kind not in KILLS_COORDINATOR)
    slow = {"seconds": args.slow_minutes * 60, "every": args.every, "kinds": patient, **common}
    phases = {"workers": ("workers", chaos_module.Options(seed=args.seed, **fast)),
              "servers": ("servers", chaos_module.Options(seed=args.seed + 1, servers=2, **fast)),
              "slow": (f"one every {args.every:g} s", chaos_module.Options(seed=args.seed + 2, **slow))}
    return [phases[name] for name in args.phases]


def main():
    args = parse()
    reason = namespaces_unavailable()
    if reason:
        sys.exit(f"soak: {reason}")
    print(f"soak: seed {args.seed}", file=sys.stderr, flush=True)
    phases = []
    for name, options in plan(args):
        with run.cluster_under(options, Soak, args.logs) as chaos:
            chaos.run()
            phases.append(Phase(name, chaos.results, chaos.failures, chaos.seconds, chaos.observer.step() if chaos.observer else 0,
                                chaos.observer.lost_steps if chaos.observer else 0, chaos.used(), options.every > 0))
    found = judge(phases, args.goodput)
    text = report(phases, found)
    if args.out:
        pathlib.Path(args.out).write_text(text)
    print(text)
    print(f"soak: {'FAILED' if found else 'PASSED'}, {sum(len(phase.results) for phase in phases)} faults, seed {args.seed}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
