"""Measures what it costs to move workers from one running job to another, and how soon a job makes its first step.

  RINGMASTER_BIN_DIR=DIR /usr/bin/python3 -m tests.bench.scheduler.run --rounds=30 --out=scheduler.json

DIR has the programs, for instance `bin` of the bundle. On this machine, with four workers:
  idle pool   a job of two is submitted while nobody has workers
  give        a job of one to four trains on all four; a job of two is submitted, is given two of them, and ends; the first one grows again
  preempt     a job that needs all four trains on them; a job of two with a higher priority is submitted, so the first one writes a
              checkpoint and is suspended; once the other has ended, it goes on
  restart     what `give` does, as schedulers that cannot resize a job have to do it: the job of four is cancelled (it writes a
              checkpoint), the job of two is submitted, and then the first one again, on the other two workers
The clock is this machine's, read before `ringctl` starts, and by rank 0 beside each step that it committed (metrics.jsonl).
"""

import argparse
import json
import pathlib
import sys
import time

from tests.bench.recovery import samples
from tests.integration import jobs
from tests.integration.cluster import Cluster, binary

WORKERS = 4
ENDLESS = 100_000_000
# The other job's: it trains for some tenths of a second.
STEPS = 100
NAMES = {
    "idle_first_step": "idle pool: submit to the first step",
    "give_first_step": "give: submit to the other job's first step",
    "give_stall": "give: the giver stands still",
    "grow_stall": "give: it stands still again, to grow",
    "preempt_first_step": "preempt: submit to the other job's first step",
    "preempt_resume": "preempt: the other job's last step to the first job's next",
    "restart_first_step": "restart: cancel to the other job's first step",
    "restart_stall": "restart: the first job stands still",
}


def parse(arguments=None):
    parser = argparse.ArgumentParser(description="What it costs to move workers between jobs.")
    parser.add_argument("--rounds", type=int, default=30, help="samples of each figure")
    parser.add_argument("--hidden", type=int, default=256, help="width of the perceptron's three hidden layers")
    parser.add_argument("--batch", type=int, default=512, help="samples of a step, over all ranks")
    parser.add_argument("--out", help="file for the figures, in JSON")
    args = parser.parse_args(arguments)
    if args.rounds < 1 or args.hidden < 1 or args.batch < WORKERS:
        parser.error(f"--rounds and --hidden must be at least 1, --batch at least {WORKERS}")
    return args


def parse_steps(lines):
    """(time, step, generation) of each step in metrics.jsonl, in order; a last line that is not whole yet is left out."""
    entries = [json.loads(line) for line in lines if line.endswith("\n")]
    return [(entry["time"], entry["step"], entry["generation"]) for entry in entries if entry["kind"] == "step"]


def stall(steps, generation):
    """How long the job stood still until its first step of `generation`, and how many steps it made twice."""
    first = next(index for index, (_, _, its) in enumerate(steps) if its == generation)
    (before, last, _), (after, step, _) = steps[first - 1], steps[first]
    return after - before, last + 1 - step


class Pool:
    """A coordinator, four idle workers, and the jobs that are submitted to them."""

    def __init__(self, cluster, args):
        self.cluster = cluster
        self.args = args
        cluster.start_coordinator()
        cluster.start_worker("w", slots=WORKERS)
        cluster.await_workers(WORKERS)

    def submit(self, name, workers, steps, priority=0):
        """Returns the job's id; jobs of one name share a directory, so a later one goes on where the one before ended."""
        model = {"mlp": {"window": 16, "embedding_dim": 16, "hidden_dim": self.args.hidden, "hidden_layers": 3}}
        return self.cluster.submit(f"priority: {priority}\n" + jobs.train_job(
            model, {"synthetic": {"samples": 65536}}, workers, name=name, steps=steps, global_batch=self.args.batch,
            checkpoint={"directory": str(self.cluster.directory / name)}))

    def steps(self, name):
        path = pathlib.Path(self.cluster.directory / name / "metrics.jsonl")
        if not path.exists():
            return []
        with open(path, encoding="utf-8") as file:
            return parse_steps(file)

    def await_first_step(self, name):
        """When the job's first step was committed."""
        return self.cluster.await_that(f"the first step of {name}", lambda: self.steps(name))[0][0]

    def await_steps_of(self, name, after):
        """Waits for a step of a later generation than `after`; returns that generation, and the steps."""
        def found():
            steps = self.steps(name)
            return (steps[-1][2], steps) if steps and steps[-1][2] > after else None
        return self.cluster.await_that(f"steps of {name} after generation {after}", found)


def measure_idle(args):
    results = []
    with Cluster() as cluster:
        pool = Pool(cluster, args)
        for index in range(args.rounds):
            name = f"narrow{index}"
            began = time.time()
            job_id = pool.submit(name, 2, STEPS)
            results.append({"idle_first_step": pool.await_first_step(name) - began})
            cluster.await_job(job_id, "SUCCEEDED")
    return results


def measure_giving(args):
    results = []
    with Cluster() as cluster:
        pool = Pool(cluster, args)
        wide = pool.submit("wide", (1, WORKERS), ENDLESS)
        generation, _ = pool.await_steps_of("wide", 0)
        for index in range(args.rounds):
            name = f"narrow{index}"
            cluster.await_step(wide, int(cluster.job(wide)["figures"]["step"]) + 20)
            began = time.time()
            job_id = pool.submit(name, 2, STEPS)
            first_step = pool.await_first_step(name) - began
            given, steps = pool.await_steps_of("wide", generation)
            give_stall, made_twice = stall(steps, given)
            cluster.await_job(job_id, "SUCCEEDED")
            generation, steps = pool.await_steps_of("wide", given)
            grow_stall, again = stall(steps, generation)
            results.append({"give_first_step": first_step, "give_stall": give_stall, "grow_stall": grow_stall,
                            "made_twice": made_twice + again})
        cluster.cancel(wide)
    return results


def measure_preempting(args):
    results = []
    with Cluster() as cluster:
        pool = Pool(cluster, args)
        rigid = pool.submit("rigid", WORKERS, ENDLESS)
        generation, _ = pool.await_steps_of("rigid", 0)
        for index in range(args.rounds):
            name = f"urgent{index}"
            cluster.await_step(rigid, int(cluster.job(rigid)["figures"]["step"]) + 20)
            began = time.time()
            job_id = pool.submit(name, 2, STEPS, priority=1)
            first_step = pool.await_first_step(name) - began
            cluster.await_job(job_id, "SUCCEEDED")
            generation, steps = pool.await_steps_of("rigid", generation)
            _, made_twice = stall(steps, generation)
            resumed = next(when for when, _, its in steps if its == generation)
            results.append({"preempt_first_step": first_step, "preempt_resume": resumed - pool.steps(name)[-1][0],
                            "made_twice": made_twice})
        cluster.cancel(rigid)
    return results


def measure_restarting(args):
    results = []
    with Cluster() as cluster:
        pool = Pool(cluster, args)
        for index in range(args.rounds):
            wide = pool.submit("wide", WORKERS, ENDLESS)
            steps = pool.steps("wide")
            generation, _ = pool.await_steps_of("wide", steps[-1][2] if steps else 0)
            cluster.await_step(wide, int(cluster.job(wide)["figures"]["step"]) + 20)
            began = time.time()
            cluster.cancel(wide)
            narrow = pool.submit(f"narrow{index}", 2, STEPS)
            again = pool.submit("wide", WORKERS - 2, ENDLESS)
            first_step = pool.await_first_step(f"narrow{index}") - began
            later, steps = pool.await_steps_of("wide", generation)
            restart_stall, made_twice = stall(steps, later)
            results.append({"restart_first_step": first_step, "restart_stall": restart_stall, "made_twice": made_twice})
            cluster.await_job(narrow, "SUCCEEDED")
            cluster.cancel(again)
    return results


def steps_made_twice(results):
    return sum(result.get("made_twice", 0) for result in results)


def table(results):
    lines = [samples.HEADER]
    for key, name in NAMES.items():
        lines.append(samples.row(name, [result[key] for result in results if key in result]))
    return "\n".join(lines + ["", f"steps made twice: {steps_made_twice(results)}"])


def main():
    args = parse()
    results = []
    for measure in (measure_idle, measure_giving, measure_preempting, measure_restarting):
        results += measure(args)
        print(f"{measure.__name__}: done", file=sys.stderr, flush=True)
    print(table(results))
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump({"binary": binary("coordinator"), "workers": WORKERS, "samples": results}, file, indent=1)
    return 1 if steps_made_twice(results) else 0


if __name__ == "__main__":
    sys.exit(main())
