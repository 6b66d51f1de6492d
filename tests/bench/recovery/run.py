"""Measures how long a job stands still after a fault of a worker, on this machine, from outside and by phase.

  RINGMASTER_BIN_DIR=DIR /usr/bin/python3 -m tests.bench.recovery.run --kills=30 --stops=10 --out=recovery.json
  RINGMASTER_BIN_DIR=DIR /usr/bin/python3 -m tests.bench.recovery.run --spin=2 --minutes=10
  RINGMASTER_BIN_DIR=DIR /usr/bin/python3 -m tests.bench.recovery.run --device=cuda --workers=3 --kills=5 --stops=0 --rows

DIR has the programs, for instance `bin` of the bundle. Workers are killed (kill -9) or stopped (SIGSTOP) at random, one at a
time; the next one follows when the job has all its ranks again. Two clocks are read, both this machine's:
  end to end   from just before the signal to the time that rank 0 wrote beside the first step of a later generation
               in the job's metrics.jsonl, once it had committed that step
  by phase     what the coordinator tells in `ringctl job -o json`: incidents[].cost; and `verdict after`, from the signal to
               incidents[].verdict.time. `detect` begins at the culprit's last sign of life, so it can be longer
With --device=cuda all workers share one GPU, as tests may. --rows prints rows for tests/gpu/benchmarks.py in place of the table.
With --spin=N nothing is killed: N programs for each core spin for --minutes, and workers that are given up are counted.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time

from tests.bench.recovery import samples
from tests.chaos import crew
from tests.chaos import observer
from tests.integration import gpu
from tests.integration import jobs
from tests.integration.cluster import ENDED, Cluster, binary

ENDLESS = 100_000_000
PHASES = ("detect", "halt", "assign", "connect", "first_step")
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description="Time from a worker's fault to the next committed step.")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--stops", type=int, default=10)
    parser.add_argument("--budget", default="2s", help="the coordinator's --failure_budget")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="what workers compute on")
    parser.add_argument("--rows", action="store_true", help="print rows, a JSON object a line")
    parser.add_argument("--hidden", type=int, default=256, help="width of the perceptron's three hidden layers")
    parser.add_argument("--batch", type=int, default=512, help="samples of a step, over all ranks")
    parser.add_argument("--every_steps", type=int, default=0, help="steps between checkpoints; 0: none but the last")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spin", type=int, default=0, help="programs that spin, for each core; nothing is killed then")
    parser.add_argument("--minutes", type=float, default=10, help="how long they spin")
    parser.add_argument("--out", help="file for the figures, in JSON")
    args = parser.parse_args(arguments)
    if args.workers < 2 or args.kills < 0 or args.stops < 0 or args.spin < 0:
        parser.error("--workers must be at least 2, the other numbers at least 0")
    return args


class Run:
    """A cluster with an endless job, observed without asking any of its programs."""

    def __init__(self, cluster, args):
        self._cluster = cluster
        self._random = random.Random(args.seed)
        self._workers = args.workers
        coordinator = cluster.start_coordinator("--log_format=json", budget=args.budget)
        self._crew = crew.Crew(cluster, gpu.GPU if args.device == "cuda" else ())
        for index in range(args.workers):
            self._crew.start(f"w{index}")
        cluster.await_workers(args.workers)
        self._figures = cluster.directory / "figures" / "metrics.jsonl"
        model = {"mlp": {"window": 16, "embedding_dim": 16, "hidden_dim": args.hidden, "hidden_layers": 3}}
        self.job_id = cluster.submit(jobs.train_job(
            model, {"synthetic": {"samples": 65536}}, (2, args.workers), name="recovery", steps=ENDLESS,
            global_batch=args.batch, checkpoint={"directory": str(self._figures.parent), "every_steps": args.every_steps}))
        cluster.await_step(self.job_id, 20)
        self._log = observer.Tail(coordinator.log)
        self._events = []

    def events_of(self, kind, generation=0):
        """The coordinator's events of a kind, of this generation or later ones; read from its log, which costs it nothing."""
        self._events += [json.loads(line) for line in self._log.lines() if line.startswith("{")]
        return [event for event in self._events if event["event"] == kind and event.get("generation", 0) >= generation]

    def await_all(self):
        """Waits until the job runs with all its ranks; returns it."""
        def all_at_work():
            job = self._cluster.job(self.job_id)
            if job["state"] in ENDED:
                raise SystemExit(f"the job ended: {json.dumps(job)}")
            return job if job["state"] == "JOB_STATE_RUNNING" and len(job["members"]) == self._workers else None
        return self._cluster.await_that("all ranks at work", all_at_work)

    def fault(self, kind):
        """Hits one member and waits for the job to go on; returns the recovery's figures."""
        generation = observer.generation_of(self.await_all())
        time.sleep(self._random.uniform(0.5, 1.0))
        job = self._cluster.job(self.job_id)
        if observer.generation_of(job) != generation:
            return self.fault(kind)  # something else happened
        rank = self._random.randrange(self._workers)
        victim = next(member for member in job["members"] if int(member.get("rank", 0)) == rank)
        at = time.time()
        crew.send(int(victim["pid"]), SIGNALS[kind])
        self._cluster.await_that("job.resumed", lambda: self.events_of("job.resumed", generation + 1))
        if kind == "stop":
            crew.send(int(victim["pid"]), signal.SIGCONT)
        incident = self._incident(generation)
        cost = incident.get("cost", {})
        return {"kind": kind, "rank": rank, "worker": victim["worker"], "at": at, "generation": generation,
                "verdict_after": observer.seconds_of(incident["verdict"]["time"]) - at if incident else None,
                "blamed": incident.get("verdict", {}).get("worker"), "lost_steps": int(incident.get("lost_steps", 0)),
                "coordinator_total": observer.duration_of(cost.get("total")),
                **{phase: observer.duration_of(cost.get(phase)) for phase in PHASES}}

    def _incident(self, generation):
        incidents = self._cluster.job(self.job_id).get("incidents", [])
        return next((incident for incident in incidents
                     if int(incident["verdict"].get("generation", 0)) == generation), {})

    def end(self):
        """Ends the job and returns its steps in order: (time, step, generation)."""
        self._cluster.cancel(self.job_id)
        steps = []
        with open(self._figures, encoding="utf-8") as file:
            for line in file:
                entry = json.loads(line)
                if entry["kind"] == "step":
                    steps.append((entry["time"], entry["step"], entry["generation"]))
        return steps


def first_step_after(steps, generation):
    """When the first step of a later generation was committed."""
    return next(at for at, _, its in steps if its > generation)


def measure(args):
    with Cluster() as cluster:
        run = Run(cluster, args)
        order = ["kill"] * args.kills + ["stop"] * args.stops
        results = []
        for index, kind in enumerate(order):
            result = run.fault(kind)
            results.append(result)
            phases = ", ".join(f"{phase.replace('_', ' ')} {samples.milliseconds(result[phase])}" for phase in PHASES)
            print(f"{index + 1}/{len(order)} {kind} of rank {result['rank']}: "
                  f"{samples.milliseconds(result['coordinator_total'])} ms by the coordinator's account ({phases})",
                  file=sys.stderr, flush=True)
        run.await_all()
        steps = run.end()
    for result in results:
        result["end_to_end"] = first_step_after(steps, result["generation"]) - result["at"]
    return results


def table(results):
    lines = [samples.HEADER]
    for kind in SIGNALS:
        of_kind = [result for result in results if result["kind"] == kind]
        if not of_kind:
            continue
        for name in ("end_to_end", "verdict_after", *PHASES, "coordinator_total"):
            values = [result[name] for result in of_kind if result[name] is not None]
            lines.append(samples.row(f"{kind}: {name.replace('_', ' ')}", values))
    wrong = [result for result in results if result["blamed"] != result["worker"]]
    lines += ["", f"committed steps lost: {sum(result['lost_steps'] for result in results)}; "
              f"wrong verdicts: {len(wrong)} of {len(results)}"]
    return "\n".join(lines)


def rows(results, args):
    """Rows for tests/gpu/benchmarks.py: medians, by phase, and the counts that must be 0."""
    def row(what, unit, figure, note=""):
        return {"what": f"kill -9 of one of {args.workers} ranks: {what}", "unit": unit, "ours": figure, "peer": None, "note": note}

    def figure(name, share):
        values = [result[name] for result in results if result[name] is not None]
        return 1000 * samples.percentile(values, share) if values else None

    lines = [row("to the next committed step, p50", "ms", figure("end_to_end", 0.5), f"{len(results)} kills, {args.device}"),
             row("to the next committed step, largest", "ms", figure("end_to_end", 1.0))]
    lines += [row(f"{phase.replace('_', ' ')}, p50", "ms", figure(phase, 0.5)) for phase in ("verdict_after", *PHASES)]
    lines.append(row("committed steps lost", "", sum(result["lost_steps"] for result in results)))
    return "\n".join(json.dumps(line) for line in lines)


def spin(args):
    """Evictions while programs spin on every core."""
    with Cluster() as cluster:
        run = Run(cluster, args)
        run.await_all()
        began = time.time()
        spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"])  # pylint: disable=consider-using-with
                    for _ in range(args.spin * os.cpu_count())]
        try:
            time.sleep(60 * args.minutes)
        finally:
            for spinner in spinners:
                spinner.kill()
                spinner.wait()
        ended = time.time()
        evictions = [event["message"] for event in run.events_of("job.halting") if observer.seconds_of(event["time"]) >= began]
        times = [began] + [at for at, _, _ in run.end() if began <= at <= ended]
    return {"minutes": args.minutes, "spinners": len(spinners), "workers": args.workers, "evictions": len(evictions),
            "reasons": evictions, "steps": len(times) - 1,
            "longest_without_step": max((after - before for before, after in zip(times, times[1:])), default=ended - began)}


def main():
    args = parse()
    if args.spin:
        result = spin(args)
        text = (f"{result['spinners']} spinning programs beside {result['workers']} workers on {os.cpu_count()} cores, "
                f"{result['minutes']:g} minutes: {result['evictions']} evictions, {result['steps']} steps, "
                f"{1000 * result['longest_without_step']:.0f} ms at most between two of them"
                + "".join(f"\n  {reason}" for reason in result["reasons"]))
        is_good = result["evictions"] == 0 and result["steps"] > 0
    else:
        results = measure(args)
        text = rows(results, args) if args.rows else table(results)
        result = {"binary": binary("worker"), "workers": args.workers, "budget": args.budget, "samples": results}
        is_good = all(sample["blamed"] == sample["worker"] and sample["lost_steps"] == 0 for sample in results)
    print(text)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
