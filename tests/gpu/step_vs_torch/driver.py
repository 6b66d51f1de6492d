"""Measures the training step of PyTorch and ours on one GPU, in turn, and prints rows for the table (../benchmarks.py).

  python3 -m tests.gpu.step_vs_torch.driver --ours=bin/our_step [--models gpt2-124m cnn mlp] [--budget=SECONDS] [--out=DIR]

Both sides are processes that stay (models.py has their commands): each compiles and warms up once, and then they take turns,
A B A B, a round each, while the other waits without work on the GPU. A figure is the median of the rounds. PyTorch is tried with
torch.compile's default and with max-autotune, and goes on with the faster; where time does not allow the second, a note says so.
After its rounds, when nothing is timed any more, each side tells its kernels by name: they go to kernels-SIDE-MODEL.json, and
by kind (kinds.py) into the rows.
A side that fails or is not there leaves the other's figures, and a note. Exit status: 1 if a side failed, 0 otherwise, also where
a side cannot run here.
"""

import argparse
import collections
import json
import os
import shlex
import statistics
import sys
import time

from tests.gpu import host
from tests.gpu.step_vs_torch import kinds
from tests.gpu.step_vs_torch import models
from tests.gpu.step_vs_torch.side import Side, SideError

TORCH = f"{shlex.quote(sys.executable)} -m tests.gpu.step_vs_torch.torch_step"
VARIANTS = ("default", "max-autotune")
TRIAL_ROUNDS = 2
MIN_ROUNDS = 5
FOR_THE_END = 15.0  # seconds: profile and last words
PATIENCE = 60.0  # for a round

# seconds: of each round; waiting: the share of each in which its GPU waited for the host; profile: {kind: ms}.
Measured = collections.namedtuple("Measured", "name settings seconds waiting profile peak_memory_gib")


def parse(arguments=None):
    parser = argparse.ArgumentParser(description="PyTorch's training step and ours on one GPU.")
    parser.add_argument("--ours", help="command line of our side")
    parser.add_argument("--torch", default=TORCH, help="command line of PyTorch's side")
    parser.add_argument("--models", nargs="+", choices=sorted(models.MODELS), default=list(models.MODELS))
    parser.add_argument("--precision", choices=("bf16", "tf32", "fp32"), default="bf16")
    parser.add_argument("--batch", type=int, default=0, help="samples; each model's own unless given")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, default=400.0, help="seconds for all")
    parser.add_argument("--gpu", help="its name, for its peak; asked of the driver unless given")
    parser.add_argument("--out", default=".", help="folder for the sides' logs and PyTorch's compiled kernels")
    args = parser.parse_args(arguments)
    if args.rounds < MIN_ROUNDS:
        parser.error(f"--rounds must be at least {MIN_ROUNDS}")
    return args


def command_of(template, model, args, *more):
    return [*shlex.split(template), f"--model={model.name}", f"--batch={args.batch or model.batch}", f"--steps={model.steps}",
            f"--precision={args.precision}", *more]


class Contender:
    """A side of one model, from its start to its figures. Errors are kept, and end it."""

    def __init__(self, label, command, log, patience):
        self.label, self.error, self.is_failure = label, "", False
        self.seconds, self.waiting, self.kernels, self.last, self.ready = [], [], {}, {}, {}
        self._side = None
        try:
            self._side = Side(command, log)
            self.ready = self._side.wait_for("ready", patience)
        except SideError as error:
            self._fail(error)

    def _fail(self, error):
        self.error, self.is_failure = f"{self.label}: {error}", error.is_failure
        self.kill()

    @property
    def is_alive(self):
        return self._side is not None

    def kill(self):
        if self._side is not None:
            self._side.kill()
            self._side = None

    def round(self):
        if not self.is_alive:
            return
        try:
            answer = self._side.ask("round", PATIENCE)
            self.seconds.append(float(answer["seconds"]))
            if "computed_seconds" in answer:
                self.waiting.append(1.0 - answer["computed_seconds"] / answer["seconds"])
        except SideError as error:
            self._fail(error)

    def finish(self):
        if not self.is_alive:
            return
        try:
            self.kernels = self._side.ask("profile", FOR_THE_END)
            self.last = self._side.end(FOR_THE_END)
        except SideError as error:
            self._fail(error)
        self.kill()

    def measured(self):
        """None without a round."""
        if not self.seconds:
            return None
        profile = kinds.by_kind(self.kernels["kernels"], self.kernels["steps"]) if "kernels" in self.kernels else {}
        return Measured(self.ready["name"], self.ready["settings"], self.seconds, self.waiting, profile, self.last.get("peak_memory_gib"))

    def notes(self):
        notes = [self.error] if self.error else []
        if "why" in self.kernels:
            notes.append(f"{self.label}: no kernels by name: {self.kernels['why']}")
        if self.kernels.get("kernels") == []:
            notes.append(f"{self.label}: no kernels by name: its profiler recorded none")
        if self.kernels.get("lost"):
            notes.append(f"{self.label}: {self.kernels['lost']} kernels or copies have no time")
        return notes


def best_torch(model, args, deadline):
    """(the faster of PyTorch's variants, notes). A second one is tried if half of the time is left for the rest."""
    best, notes = None, []
    for variant in VARIANTS:
        left = deadline - time.monotonic()
        if best is not None and (not best.is_alive or left < 60):
            if best.is_alive:
                notes.append(f"{variant} was not tried: no time was left")
            break
        patience = left * (0.5 if best is None else 0.6)
        log = os.path.join(args.out, f"torch-{model.name}-{variant}.log")
        contender = Contender("PyTorch", command_of(args.torch, model, args, f"--compile={variant}"), log, patience)
        for _ in range(TRIAL_ROUNDS):
            contender.round()
        if best is None:
            best = contender
            continue
        if contender.is_alive and statistics.median(contender.seconds) < statistics.median(best.seconds):
            best, contender = contender, best
        elif not contender.is_alive:
            notes.append(f"{variant}: {contender.error}")
        contender.kill()
    best.seconds.clear()
    return best, notes


def measure(model, args, deadline):
    """(ours or None, PyTorch's or None, notes, whether a side failed)."""
    torch, notes = best_torch(model, args, deadline)
    contenders = [torch]
    if args.ours and os.path.exists(shlex.split(args.ours)[0]):
        log = os.path.join(args.out, f"ours-{model.name}.log")
        contenders.append(Contender("ours", command_of(args.ours, model, args), log, max(deadline - time.monotonic(), 1.0) * 0.5))
    else:
        notes.append("ours: this bundle has no program for it")
    for _ in range(args.rounds):
        # The last turn may end a little late rather than leave too few.
        if deadline - time.monotonic() < FOR_THE_END and len(torch.seconds) >= MIN_ROUNDS:
            break
        for contender in contenders:
            contender.round()
    for contender in contenders:
        contender.finish()
        notes += contender.notes()
        if "kernels" in contender.kernels:
            path = os.path.join(args.out, f"kernels-{contender.label.lower()}-{model.name}.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(contender.kernels, file, indent=1)
    ours = contenders[1].measured() if len(contenders) > 1 else None
    return ours, torch.measured(), notes, any(contender.is_failure for contender in contenders)


def rate_of(model, batch, measured):
    """Units a second, from the median round."""
    return model.steps * batch * model.units_of_sample / statistics.median(measured.seconds)


def rows_of(model, args, gpu, ours, peer, notes):
    """Rows as benchmarks.py reads them."""
    batch = args.batch or model.batch
    title = f"{model.title_of(batch)}, {args.precision}"
    name = peer.name if peer else "PyTorch"
    peak = models.peak_flops(gpu or "", args.precision)
    rounds = [f"{len(side.seconds)} rounds of {side.name} ({side.settings})" for side in (ours, peer) if side]

    def row(what, unit, figure, note=""):
        sides = [figure(side) if side else None for side in (ours, peer)]
        return {"what": f"{title}{what}", "unit": unit, "ours": sides[0], "peer": sides[1], "peer_name": name, "note": note}

    rows = [row("", model.unit, lambda side: rate_of(model, batch, side), "; ".join(rounds + notes))]
    if ours is None and peer is None:
        return rows
    rows.append(row(": step", "ms", lambda side: 1000 * statistics.median(side.seconds) / model.steps))
    if peak:
        rows.append(row(": model FLOP utilisation", "%", lambda side: 100 * model.flops * rate_of(model, batch, side) / peak,
                        f"of {peak / 1e12:g} TFLOP/s"))
    rows.append(row(": GPU waits for the host", "% of a step", lambda side: 100 * statistics.median(side.waiting) if side.waiting else None))
    rows.append(row(": peak memory", "GiB", lambda side: side.peak_memory_gib, "held by the allocator"))
    for kind in sorted({kind for side in (ours, peer) if side for kind in side.profile}):
        rows.append(row(f": {kind} kernels", "ms a step", lambda side, kind=kind: side.profile.get(kind)))
    # For the rest of a step, above this row, the GPU has nothing to do.
    rows.append(row(": all kernels and copies", "ms a step", lambda side: sum(side.profile.values()) or None))
    return rows[:1] + [entry for entry in rows[1:] if entry["ours"] is not None or entry["peer"] is not None]


def gpu_name(args):
    if args.gpu is not None:
        return args.gpu
    answer, _ = host.ask_driver()
    return answer["gpus"][0]["name"] if answer else None


def main(arguments=None):
    args = parse(arguments)
    os.makedirs(args.out, exist_ok=True)
    # A second process finds what the first compiled.
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(os.path.abspath(args.out), "inductor"))
    started, shares, failed = time.monotonic(), 0.0, False
    gpu = gpu_name(args)
    total = sum(models.MODELS[name].share for name in args.models)
    for name in args.models:
        model = models.MODELS[name]
        shares += model.share / total
        ours, peer, notes, has_failed = measure(model, args, started + args.budget * shares)
        failed = failed or has_failed
        for entry in rows_of(model, args, gpu, ours, peer, notes):
            print(json.dumps(entry), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
