"""Runs the benchmarks of a bundle.

A benchmark is a program that prints rows, a JSON object a line (other lines are passed over):
  {"what": "GPT-2 124M, bf16", "unit": "tokens/s", "ours": 650000, "peer": 600000, "peer_name": "PyTorch 2.11", "note": ""}
"ours" and "peer" are numbers, or null where there is none; "note" says why. Exit status 0: its rows are right.
"""

import collections
import json
import pathlib
import sys
import time

from tests.gpu import host as hosts
from tests.gpu import programs
from tests.gpu.step_vs_torch import models

Row = collections.namedtuple("Row", "what unit ours peer peer_name note")
# command: a function of the bundle's folder, the folder for files, and the seconds it has. needs: the bundle's programs without which
# it has nothing to do. rows: the table's rows where it does not run: (what, unit, peer).
Benchmark = collections.namedtuple("Benchmark", "name min_gpus seconds needs rows command")

OUR_STEP = "our_step"
ALL_REDUCE = "all_reduce_vs_nccl"
OVERLAP = "overlap"
# It starts the programs that people run.
RECOVERY = "recovery"
RECOVERY_PROGRAMS = ["coordinator", "worker", "ringctl"]
LEAST = 10.0  # seconds; with less left none is started


def _step_command(root, out, seconds):
    return [sys.executable, "-m", "tests.gpu.step_vs_torch.driver", f"--ours={root / 'bin' / OUR_STEP}", f"--budget={seconds:.0f}",
            f"--out={out}"]


def _recovery_command(root, out, seconds):
    return ["env", f"RINGMASTER_BIN_DIR={root / 'bin'}", sys.executable, "-m", "tests.bench.recovery.run", "--device=cuda", "--workers=3",
            "--kills=5", "--stops=0", "--rows"]


KNOWN = [
    # The short ones first: the last may take what is left.
    Benchmark(OVERLAP, 1, 60.0, [OVERLAP],
              [("gpt2-124m, B=64, bf16, ring of 8 over 25 GB/s: exposed communication", "ms a step", "without overlap")],
              lambda root, out, seconds: [str(root / "bin" / OVERLAP)]),
    Benchmark(ALL_REDUCE, 2, 60.0, [ALL_REDUCE], [("all-reduce, 256 MiB", "GB/s", "NCCL called directly")],
              lambda root, out, seconds: [str(root / "bin" / ALL_REDUCE)]),
    Benchmark(RECOVERY, 1, 90.0, RECOVERY_PROGRAMS,
              [("kill -9 of one of 3 ranks: to the next committed step, p50", "ms", "")], _recovery_command),
    # PyTorch's figures are worth having without ours, so it needs nothing of the bundle.
    Benchmark("step_vs_torch", 1, 420.0, [], [(model.title_of(), model.unit, "PyTorch") for model in models.MODELS.values()],
              _step_command),
]
SIDES = {OUR_STEP, ALL_REDUCE, OVERLAP}  # programs of the bundle that the list above runs


def of_bundle(manifest):
    """Those above, and each program with the tag "gpu_bench" that prints rows itself."""
    others = [entry for entry in manifest["benchmarks"] if entry["name"] not in SIDES]
    return KNOWN + [
        Benchmark(entry["name"], 1, entry["seconds"], [entry["name"]], [(entry["name"], "", "")],
                  lambda root, out, seconds, program=entry["program"]: [str(root / "bin" / program)]) for entry in others
    ]


def not_run(benchmark, why):
    return [Row(what, unit, None, None, peer, f"not run: {why}") for what, unit, peer in benchmark.rows]


def rows_of(lines):
    rows = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and {"what", "unit", "ours", "peer"} <= entry.keys():
            rows.append(Row(entry["what"], entry["unit"], entry["ours"], entry["peer"], entry.get("peer_name", ""),
                            entry.get("note", "")))
    return rows


def why_not(benchmark, host, root):
    """Returns why it cannot run here, or "" if it can."""
    if not host.gpus:
        return f"no GPU: {host.trouble}"
    if len(host.gpus) < benchmark.min_gpus:
        return f"it needs {benchmark.min_gpus} GPUs, and here is {len(host.gpus)}"
    missing = [name for name in benchmark.needs if not (root / "bin" / name).exists()]
    return f"this bundle has no program {', '.join(missing)}" if missing else ""


def run(benchmark, root, out, host, deadline):
    """(rows, outcome, seconds): "passed", "failed", "hung", "not run" (it cannot run here) or "out of time"."""
    left = deadline - time.monotonic()
    why = why_not(benchmark, host, root)
    if why:
        return not_run(benchmark, why), "not run", 0.0
    if left < LEAST:
        return not_run(benchmark, "no time was left"), "out of time", 0.0
    log = pathlib.Path(out) / f"{benchmark.name}.log"
    output = pathlib.Path(out) / f"{benchmark.name}.jsonl"
    log.unlink(missing_ok=True)
    limit = min(benchmark.seconds, left)
    with open(output, "wb") as stdout:
        # The program is asked to take a little less than the limit, so that it can end in time.
        ended = programs.run(benchmark.command(root, out, limit * 0.95), log, limit,
                             dict(host.environment, PYTHONPATH=hosts.python_path(host, root)), out, stdout)
    rows = rows_of(output.read_text(encoding="utf-8", errors="replace").splitlines())
    if ended.status == 0 and rows:
        has_figures = any(row.ours is not None or row.peer is not None for row in rows)
        return rows, "passed" if has_figures else "not run", ended.seconds
    if ended.status is None:
        why = f"killed: it had not ended within {limit:.0f} s; see {log}"
        outcome = "hung" if limit == benchmark.seconds else "out of time"
    else:
        last = "it printed no rows" if ended.status == 0 else (programs.last_line(log) or "it says nothing")
        why, outcome = f"exit status {ended.status}: {last}; see {log}", "failed"
    # Rows measured before that still count.
    return rows + not_run(benchmark, why), outcome, ended.seconds
