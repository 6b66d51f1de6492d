"""PyTorch's collectives and data-parallel training over Ringmaster's back end, beside gloo, on this machine.

  bazel build //:ringctl //:coordinator //:worker
  RINGMASTER_BIN_DIR=DIR /usr/bin/python3 -m tests.bench.torch_backend.run [--ranks 2 4] [--cases gpt_14m] [--out=figures.json]

Both run in the same processes, in turns (A B A B ...), started by `ringctl run`. Figures are medians over rounds: of a call's median in
each, and of a step of DistributedDataParallel. A rank's tensor has the size that is given; gloo has its defaults, on the loopback
interface. A case is trained by
two models a rank: gpt2_124m takes 5 GB of each.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from tests.bench.torch_backend import plot
from tests.integration.cluster import binary

SIZES = (4, 512, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
CALLS = [f"all_reduce:{size}" for size in SIZES] + [
    f"{call}:{size}" for call in ("broadcast", "all_gather", "all_to_all") for size in (4 << 10, 1 << 20, 16 << 20)] + ["barrier:0"]
PYTHON = "/usr/bin/python3"  # PyTorch is of Debian's interpreter


def parse(arguments=None):
    parser = argparse.ArgumentParser(description="PyTorch over Ringmaster's back end, beside gloo.")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--calls", nargs="*", default=CALLS, help="CALL:BYTES")
    parser.add_argument("--cases", nargs="*", default=["gpt_14m"], help="models to train: gpt_14m, gpt2_124m")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", help="file for the figures, in JSON")
    parser.add_argument("--svg", help="file for a plot of all_reduce")
    args = parser.parse_args(arguments)
    if min(args.ranks) < 2 or args.rounds < 1:
        parser.error("--ranks must be at least 2, --rounds at least 1")
    return args


def measure(ranks, *arguments):
    with tempfile.TemporaryDirectory() as directory:
        out = pathlib.Path(directory) / "out.json"
        bin_dir = pathlib.Path(directory) / "bin"
        bin_dir.mkdir()
        for name in ("coordinator", "worker"):
            (bin_dir / name).symlink_to(binary(name))
        environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo", OPENBLAS_NUM_THREADS="1")
        run = subprocess.run(
            [binary("ringctl"), "run", f"--bin_dir={bin_dir}", f"--run_dir={directory}/logs", "--backend=as_is",
             f"--working_directory={pathlib.Path.cwd()}", "-n", str(ranks), PYTHON, "-m", "tests.bench.torch_backend.rank", f"--out={out}",
             *arguments], env=environment, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise SystemExit(f"the ranks failed: {run.stderr.strip()[-2000:]}")
        return json.loads(out.read_text())


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def time_text(seconds):
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"


def table(results):
    """`results`: {ranks: {what: {backend: seconds}}}."""
    lines = ["| ranks | what | gloo | ringmaster | gloo / ringmaster |", "|---|---|---|---|---|"]
    for ranks, of_ranks in results.items():
        for what, seconds in of_ranks.items():
            name, _, size = what.partition(":")
            gloo, ours = (statistics.median(seconds[backend]) for backend in ("gloo", "ours"))
            title = f"`{name}`" if size in ("", "0") else f"`{name}`, {size_text(int(size))}"
            if not size:
                title = f"a step of {name}"
            lines.append(f"| {ranks} | {title} | {time_text(gloo)} | {time_text(ours)} | {gloo / ours:.2f} |")
    return "\n".join(lines)


def main():
    args = parse()
    results = {ranks: {} for ranks in args.ranks}
    for ranks in args.ranks:
        for what in ([["--calls", *args.calls]] if args.calls else []) + [[f"--case={case}"] for case in args.cases]:
            measured = measure(ranks, f"--rounds={args.rounds}", *what)
            results[ranks].update(measured)
            print(table({ranks: measured}), file=sys.stderr, flush=True)
    print(table(results))
    if args.svg:
        plot.draw(results, size_text, args.svg)
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
