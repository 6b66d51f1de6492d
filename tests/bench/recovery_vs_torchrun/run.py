"""Kills ranks of a job here, of the same job under torchrun, and of torchrun's script here, and compares what each kill costs.

  RINGMASTER_BIN_DIR=DIR /usr/bin/python3 -m tests.bench.recovery_vs_torchrun.run --kills=10 --out=versus.json

The same perceptron, global batch, number of ranks and interval of checkpoints on this machine; one rank is killed
(kill -9) at random, ten times. torchrun (python3 -m torch.distributed.run, Gloo, --max_restarts) is measured as it comes and with
a --monitor_interval of 0.1 s, the best for it; its script is also started by `ringctl run`, where the ranks that are left go on (so it is
started anew once one is left). Compared are:
  next step      from just before the kill to the end of the next step that all ranks made; of the script here, of the first that began
                 after the kill, as one that all have contributed to ends well
  caught up      to the first step that had not been made before
  steps lost     made before the kill, and made again
Without PyTorch it says so and measures nothing.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from tests.bench.recovery import run as recovery
from tests.bench.recovery import samples
from tests.chaos import observer
from tests.integration.cluster import Cluster, binary

PATIENCE = 120.0
TORCHRUN = {"torchrun": [], "torchrun, 0.1 s monitor": ["--monitor_interval=0.1"]}
CANDIDATES = ["ours", *TORCHRUN, "its script here"]


def parse(arguments=None):
    parser = argparse.ArgumentParser(description="What a killed rank costs: ours beside torchrun.")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=256, help="width of the perceptron's three hidden layers")
    parser.add_argument("--batch", type=int, default=512, help="samples of a step, over all ranks")
    parser.add_argument("--every_steps", type=int, default=100, help="steps between checkpoints")
    parser.add_argument("--budget", default="2s", help="the coordinator's --failure_budget")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=CANDIDATES, help="measure one of them")
    parser.add_argument("--out", help="file for the figures, in JSON")
    args = parser.parse_args(arguments)
    if args.kills < 1 or args.workers < 2:
        parser.error("--kills must be at least 1, --workers at least 2")
    return args


def measure_ours(args):
    with Cluster() as cluster:
        run = recovery.Run(cluster, args)
        faults = [run.fault("kill") for _ in range(args.kills)]
        run.await_all()
        steps = run.end()
    results = []
    for fault in faults:
        took = recovery.first_step_after(steps, fault["generation"]) - fault["at"]
        # No step is made twice, unless the coordinator says so.
        results.append({"next_step": took, "caught_up": took, "steps_lost": fault["lost_steps"]})
    return results, [(at, step) for at, step, _ in steps]


def torchrun_command(directory, flags, args):
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={args.workers}",
            f"--max_restarts={args.kills + 5}", *flags,
            # With Python 3.11 the defaults of PyTorch 1.13's launcher (no redirection) end it at once.
            "--redirects=2", "--tee=1", f"--log_dir={directory / 'logs'}"]


def ringctl_command(directory, args):
    bin_dir = directory / "bin"
    bin_dir.mkdir()
    for name in ("coordinator", "worker"):
        (bin_dir / name).symlink_to(binary(name))
    return [binary("ringctl"), "run", f"--bin_dir={bin_dir}", f"--run_dir={directory / 'logs'}", "-n", str(args.workers), sys.executable]


class ScriptJob:
    """The script under a launcher, and its steps as rank `observer` wrote them."""

    def __init__(self, directory, launcher, args, observer_rank=0):
        self._directory = directory
        self._steps = directory / f"steps-{observer_rank}.jsonl"
        self._tail = None
        self.steps = []            # (time, step, attempt)
        command = [*launcher, str(pathlib.Path(__file__).with_name("torch_job.py")), f"--directory={directory}", f"--batch={args.batch}",
                   f"--hidden={args.hidden}", f"--every_steps={args.every_steps}"]
        with open(directory / "log", "wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True,  # pylint: disable=consider-using-with
                                             env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"})

    def poll(self):
        if self._tail is None and self._steps.exists():
            self._tail = observer.Tail(self._steps)
        for line in self._tail.lines() if self._tail else ():
            entry = json.loads(line)
            self.steps.append((entry["time"], entry["step"], entry["attempt"]))

    def await_step(self, what, accepts):
        """Waits for a step that `accepts`; returns it."""
        deadline, looked = time.monotonic() + PATIENCE, 0
        while True:
            self.poll()
            for index in range(looked, len(self.steps)):
                if accepts(*self.steps[index]):
                    return self.steps[index]
            looked = len(self.steps)
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise SystemExit(f"the script: no {what}; {(self._directory / 'log').read_text(errors='replace')[-3000:]}")
            time.sleep(0.02)

    def pid(self, attempt, rank):
        return int((self._directory / f"pid-{attempt}-{rank}").read_text(encoding="ascii"))

    def end(self):
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        finally:
            # Its workers have sessions of their own, so those that outlive it are not in its group.
            for path in self._directory.glob("pid-*"):
                pid = int(path.read_text(encoding="ascii"))
                cmdline = pathlib.Path(f"/proc/{pid}/cmdline")
                if cmdline.exists() and str(self._directory) in cmdline.read_text(errors="replace"):
                    os.kill(pid, signal.SIGKILL)


def measure_torchrun(flags, args):
    generator = random.Random(args.seed)
    results = []
    with tempfile.TemporaryDirectory() as directory:
        job = ScriptJob(pathlib.Path(directory), torchrun_command(pathlib.Path(directory), flags, args), args)
        try:
            _, step, attempt = job.await_step("first step", lambda at, step, attempt: True)
            for _ in range(args.kills):
                # Somewhere between two checkpoints, and some steps after the last start.
                goal = step + generator.randint(args.every_steps // 2, 3 * args.every_steps // 2)
                job.await_step(f"step {goal}", lambda at, step, its: its == attempt and step >= goal)
                at = time.time()
                os.kill(job.pid(attempt, generator.randrange(args.workers)), signal.SIGKILL)
                resumed, step, after = job.await_step("step after a kill", lambda _, step, its: its > attempt)
                best = max(made for when, made, its in job.steps if its == attempt)
                caught_up, _, _ = job.await_step("new step", lambda _, made, its: its == after and made > best)
                results.append({"next_step": resumed - at, "caught_up": caught_up - at, "steps_lost": best - (step - 1)})
                attempt = after
                print(f"torchrun: {results[-1]}", file=sys.stderr, flush=True)
        finally:
            job.end()
        return results, [(at, step) for at, step, _ in job.steps]


def measure_script_here(args):
    generator = random.Random(args.seed)
    results, steps = [], []
    while len(results) < args.kills:
        ranks = generator.sample(range(args.workers), args.workers)
        with tempfile.TemporaryDirectory() as directory:
            directory = pathlib.Path(directory)
            job = ScriptJob(directory, ringctl_command(directory, args), args, observer_rank=ranks[-1])
            try:
                _, step, _ = job.await_step("first step", lambda at, step, attempt: True)
                for victim in ranks[:-1][:args.kills - len(results)]:
                    goal = step + generator.randint(args.every_steps // 2, 3 * args.every_steps // 2)
                    job.await_step(f"step {goal}", lambda at, step, _, goal=goal: step >= goal)
                    at = time.time()
                    os.kill(job.pid(0, victim), signal.SIGKILL)
                    _, under_way, attempt = job.await_step("step after a kill", lambda made, step, _, at=at: made > at)
                    took, step, attempt = job.await_step("next step", lambda made, step, _, after=under_way: step > after)
                    made = [number for _, number, _ in job.steps]
                    if attempt != 0 or made != list(range(made[0], made[0] + len(made))):
                        raise SystemExit(f"steps were made again: {made}")
                    results.append({"next_step": took - at, "caught_up": took - at, "steps_lost": 0})
                    print(f"its script here: {results[-1]}", file=sys.stderr, flush=True)
            finally:
                job.end()
            steps = steps or [(at, step) for at, step, _ in job.steps]
    return results, steps


def step_seconds(steps):
    return statistics.median(after - before for (before, _), (after, _) in zip(steps, steps[1:]))


def table(figures):
    """Side by side; seconds."""
    lines = ["| | " + " | ".join(figures) + " |", "|---" * (len(figures) + 1) + "|"]

    def add(name, text):
        lines.append(f"| {name} | " + " | ".join(text(figure) for figure in figures.values()) + " |")

    add("kills", lambda figure: str(len(figure["samples"])))
    add("a step, ms", lambda figure: samples.milliseconds(figure["step_seconds"]))
    for key, name in (("next_step", "kill to next step"), ("caught_up", "kill to first new step")):
        for share, label in ((0.5, "p50"), (0.99, "p99")):
            add(f"{name}, {label}, s", lambda figure, key=key, share=share:
                f"{samples.percentile([sample[key] for sample in figure['samples']], share):.3f}")
    add("steps lost, in all", lambda figure: str(sum(sample["steps_lost"] for sample in figure["samples"])))
    return "\n".join(lines)


def main():
    args = parse()
    if importlib.util.find_spec("torch") is None:
        print("recovery_vs_torchrun: skipped, PyTorch is not installed (python3-torch)")
        return 0
    figures = {}
    measures = {"ours": measure_ours, "its script here": measure_script_here,
                **{name: lambda args, flags=flags: measure_torchrun(flags, args) for name, flags in TORCHRUN.items()}}
    for name in CANDIDATES:
        if args.only in (None, name):
            results, steps = measures[name](args)
            figures[name] = {"samples": results, "step_seconds": step_seconds(steps)}
    print(table(figures))
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump({"settings": vars(args), "figures": figures}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
