"""Compares the training step of a program of ours with PyTorch's DDP on this host, and writes a table in Markdown.

  /usr/bin/python3 -m tests.bench.step_vs_torch.run --ours 'PROGRAM --case={case} --ranks={ranks} --precision={precision}
      --steps={steps}' --runs gpt_14m:2:fp32 gpt2_124m:2:bf16 --out table.md

PROGRAM prints a JSON object {"step", "seconds", "tokens"} for each step, tokens of all ranks together, and perhaps
"cpu_seconds", those of one rank; other lines are passed over. Without --ours PyTorch is measured alone.

The two run in turn (A B A B ...), as processes of their own, so that a disturbance of the machine hits both. A run's figure
is the median of its steps after the first ones; the table has medians and bests over the rounds, and the least CPU time. A
round counts only if quiet.py finds that nobody else had the cores in either run; if there is none such after --attempts times
--rounds tries, all count, and the table says so. `chrt -r 1` in front (needs root) keeps other programs off the cores.
"""

import argparse
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys

from tests.bench.step_vs_torch import quiet
from tests.bench.step_vs_torch import torch_ddp

PATIENCE = 900.0
TORCH = ("/usr/bin/python3 -m tests.bench.step_vs_torch.torch_ddp --case {case} --ranks {ranks} --precision {precision} "
         "--steps {steps}")
ALL = [f"{case}:{ranks}:{precision}" for case in torch_ddp.CASES for ranks in (1, 2) for precision in ("fp32", "bf16")]


def parse(arguments=None):
    parser = argparse.ArgumentParser(description="Training step: ours against PyTorch DDP.")
    parser.add_argument("--ours", help="command line of our program, with {case}, {ranks}, {precision} and {steps}")
    parser.add_argument("--torch", default=TORCH, help="command line of the peer")
    parser.add_argument("--runs", nargs="+", default=ALL, metavar="CASE:RANKS:PRECISION")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="of a run, with those that warm up")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--attempts", type=int, default=3, help="tries for each round")
    parser.add_argument("--max_others", type=float, default=quiet.MAX_OTHERS, help="share of the cores that others may have")
    parser.add_argument("--out", help="file for the table")
    args = parser.parse_args(arguments)
    if args.rounds < 1 or args.attempts < 1 or not 0 <= args.warmup < args.steps:
        parser.error("--rounds and --attempts must be at least 1, --steps more than --warmup")
    for run in args.runs:
        case, ranks, precision = (run.split(":") + ["", ""])[:3]
        if case not in torch_ddp.CASES or not ranks.isdigit() or precision not in ("fp32", "bf16"):
            parser.error(f"--runs {run}: expected CASE:RANKS:PRECISION such as {ALL[-1]}, with a case of "
                         f"{', '.join(torch_ddp.CASES)}")
    return args


def steps_of(output):
    """The step lines of a program."""
    steps = []
    for line in output.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and {"step", "seconds", "tokens"} <= entry.keys():
            steps.append(entry)
    return steps


def figure_of(steps, warmup):
    """{tokens_per_second, best, cpu_seconds} of a run."""
    measured = steps[warmup:]
    rates = [step["tokens"] / step["seconds"] for step in measured]
    cpu = [step["cpu_seconds"] for step in measured if "cpu_seconds" in step]
    return {"tokens_per_second": statistics.median(rates), "best": max(rates),
            "cpu_seconds": statistics.median(cpu) if cpu else None}


def run_once(template, run, args):
    case, ranks, precision = run.split(":")
    command = shlex.split(template.format(case=case, ranks=ranks, precision=precision, steps=args.steps))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    steps = steps_of(output)
    if process.returncode != 0 or len(steps) != args.steps:
        sys.exit(f"{shlex.join(command)}: exit status {process.returncode}, {len(steps)} steps of {args.steps}\n{output}")
    return figure_of(steps, args.warmup)


def measure(run, candidates, watch, args):
    """({candidate: [figure of each round]}, whether the rounds were quiet)."""
    clean, all_rounds = [], []
    for attempt in range(args.rounds * args.attempts):
        figures, reasons = {}, []
        for name, template in candidates.items():
            before = watch.begin()
            figures[name] = run_once(template, run, args)
            reason = watch.disturbance(before)
            if reason:
                reasons.append(f"{name}: {reason}")
        all_rounds.append(figures)
        if not reasons:
            clean.append(figures)
        shown = ", ".join(f"{name} {figure['tokens_per_second']:.0f} tok/s" for name, figure in figures.items())
        print(f"{run} try {attempt + 1}: {shown}{'; dropped: ' + '; '.join(reasons) if reasons else ''}", file=sys.stderr,
              flush=True)
        if len(clean) == args.rounds:
            break
    rounds = clean or all_rounds
    return {name: [figures[name] for figures in rounds] for name in candidates}, bool(clean)


def row(run, figures, is_quiet):
    """A line of the table. The ratio is that of the medians."""
    case, ranks, precision = run.split(":")
    cells, medians = [], {}
    for name in ("ours", "PyTorch"):
        rounds = figures.get(name)
        if not rounds:
            cells += ["-", "-"]
            continue
        medians[name] = statistics.median(figure["tokens_per_second"] for figure in rounds)
        best = max(figure["best"] for figure in rounds)
        cpu = [figure["cpu_seconds"] for figure in rounds if figure["cpu_seconds"] is not None]
        cells += [f"{medians[name]:.0f} ({best:.0f})", f"{min(cpu):.3f}" if cpu else "-"]
    ratio = f"{medians['ours'] / medians['PyTorch']:.2f}x" if len(medians) == 2 else "-"
    count = len(next(iter(figures.values())))
    return "| " + " | ".join([case, ranks, precision] + cells + [ratio, f"{count}{'' if is_quiet else ', disturbed'}"]) + " |"


HEADER = ("| case | ranks | precision | ours, tok/s: median (best) | CPU s a step | PyTorch DDP, tok/s: median (best) "
          "| CPU s a step | ours / PyTorch | rounds |\n|---|---|---|---|---|---|---|---|---|")


def main():
    args = parse()
    candidates = {"ours": args.ours} if args.ours else {}
    candidates["PyTorch"] = args.torch
    watch = quiet.Quiet(args.max_others)
    lines = [HEADER]
    for run in args.runs:
        lines.append(row(run, *measure(run, candidates, watch, args)))
        text = "\n".join(lines) + "\n"
        if args.out:
            with open(args.out, "w", encoding="utf-8") as file:
                file.write(text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
