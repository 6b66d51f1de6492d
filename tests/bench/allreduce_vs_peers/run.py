"""Compares our all-reduce with Gloo's and OpenMPI's on this host, and writes tables in Markdown.

  bazel build //tests/bench/allreduce_vs_peers:all_reduce_bench_with_gloo //tests/bench/allreduce_vs_peers:mpi_peer
  chrt -r 1 /usr/bin/python3 -m tests.bench.allreduce_vs_peers.run --bin_dir=bazel-bin/tests/bench/allreduce_vs_peers --ranks=2

A round is one start of our program, which measures ours and Gloo in turn at every size, then one of mpi_peer for each way
that OpenMPI can work; rounds follow one another, so that a disturbance of the machine hits all. All programs follow the rules
of measure.h. Figures are medians over rounds of the slowest rank's time; a sample counts only if the probe before and after it
took no more than 1.3 times its program's best in the run, and fewer than five make no figure. `chrt -r 1` (needs root) keeps
other programs off the cores. Without mpirun or mpi_peer it measures the others.

--mode=sweep measures our algorithms instead, --mode=wire counts bytes, --mode=dead_rank kills ranks. --mode=integrity measures what the
checksums of frames and their encryption cost, between network namespaces (needs root) whose links are paced to --gbit each way.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from tests.bench.allreduce_vs_peers import plot
from tests.bench.allreduce_vs_peers import tables

PATIENCE = 60.0
SIZES = [4, 64, 256, 1024, 4096, 16384, 65536]
SEGMENTS = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "5",
            "--mca", "coll_tuned_allreduce_algorithm_segmentsize", str(1 << 20)]
SHM = ["--mca", "btl", "vader,self"]
TCP = ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
MPI = dict(zip(tables.SHM + tables.TCP, (SHM, SHM + SEGMENTS, TCP, TCP + SEGMENTS)))


def parse(arguments=None):
    parser = argparse.ArgumentParser(description="All-reduce on one host: ours beside Gloo and OpenMPI.")
    parser.add_argument("--bin_dir", type=pathlib.Path, required=True, help="where the programs are")
    parser.add_argument("--mode", choices=["compare", "sweep", "wire", "integrity", "dead_rank"], default="compare")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--kib", type=int, nargs="+", default=SIZES, help="sizes of the buffer in KiB")
    parser.add_argument("--gbit", type=float, default=10, help="rate of a host's link (integrity)")
    parser.add_argument("--json", help="file for the samples; those that it holds already are merged with the new ones")
    parser.add_argument("--svg", help="file for a plot of bus bandwidth by size (compare)")
    args = parser.parse_args(arguments)
    if args.ranks < 2 or args.rounds < 1 or min(args.kib) < 1:
        parser.error("--ranks must be at least 2, --rounds and --kib at least 1")
    return args


def entries_of(output, program):
    """The JSON lines of a program, which may print other lines too."""
    return [{**json.loads(line), "program": program} for line in output.splitlines() if line.startswith("{")]


def run(command, program):
    """Returns its entries; none if it hangs, which is printed and counts as a lost round."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            print(f"no end within {PATIENCE:.0f} s, dropped: {' '.join(command)}", file=sys.stderr, flush=True)
            return []
        finally:
            end(process)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {process.returncode}\n{output}")
    return entries_of(output, program)


def end(process):
    """Ends it if it runs. mpirun ends its ranks, which are in groups of their own, when it is asked to."""
    for number, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, None)):
        if process.poll() is None:
            os.killpg(process.pid, number)
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                continue


def sizes(args):
    """As the programs take them."""
    return [f"{kib}K" for kib in args.kib]


def our_program(bin_dir):
    with_gloo = bin_dir / "all_reduce_bench_with_gloo"
    return str(with_gloo if with_gloo.exists() else bin_dir / "all_reduce_bench")


def mpi_command(bin_dir, name, args, page, cores):
    flags = ["--allow-run-as-root", "--bind-to", "none", "--mca", "pml", "ob1"]
    # With more ranks than cores it would spin for ever, unless it is told to yield.
    if args.ranks > cores:
        flags.append("--oversubscribe")
    return ["mpirun", *flags, *MPI[name], "-np", str(args.ranks), str(bin_dir / "mpi_peer"), page, name,
            *sizes(args)]


@contextlib.contextmanager
def paced_hosts(args):
    """The flags that name as many hosts as there are ranks."""
    from tests.integration.cluster import Hosts  # pylint: disable=import-outside-toplevel
    with Hosts(args.ranks) as hosts:
        for host in hosts:
            # A burst of a few of the largest packets, which is what a timer of the kernel lets through at once.
            subprocess.run(["tc", "-n", host.name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", f"{args.gbit}gbit",
                            "burst", "256kb", "latency", "20ms"], check=True)
        yield [f"--hosts={host.name}@{host.address}" for host in hosts]


def measure(args):
    """All samples of a run, `rounds` of each."""
    if args.mode == "integrity":
        with paced_hosts(args) as hosts:
            return measure_rounds(args, hosts)
    return measure_rounds(args, [])


def measure_rounds(args, flags):
    ours = [our_program(args.bin_dir), f"--mode={args.mode}", f"--ranks={args.ranks}", *flags]
    if args.mode in ("wire", "dead_rank"):
        return run(ours + ([] if args.mode == "dead_rank" else sizes(args)), "ours")
    has_mpi = args.mode == "compare" and shutil.which("mpirun") and (args.bin_dir / "mpi_peer").exists()
    if args.mode == "compare" and not has_mpi:
        print("OpenMPI is not measured: no mpirun, or no mpi_peer (deploy/packages-bench.txt)", file=sys.stderr)
    samples = []
    for number in range(args.rounds):
        samples += run(ours + sizes(args), "ours")
        for name in MPI if has_mpi else ():
            with tempfile.TemporaryDirectory() as directory:
                command = mpi_command(args.bin_dir, name, args, f"{directory}/page", os.cpu_count())
                samples += run(command, "mpi_peer")
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    return samples


def report(samples, args):
    """The tables, as one text."""
    if args.mode == "wire":
        return tables.wire_table(samples)
    if args.mode == "dead_rank":
        return tables.dead_rank_table(samples)
    best = {}
    for sample in samples:
        best[sample["program"]] = min(sample["probe_ns"], best.get(sample["program"], float("inf")))
    figures, dropped = tables.merge(samples, best)
    lines = [f"{args.ranks} ranks, {os.cpu_count()} cores; best probe {min(best.values()):.0f} ns; {dropped} of {len(samples)} "
             "samples were disturbed", ""]
    if args.svg:
        plot.draw(figures, args.ranks, args.svg)
    if args.mode == "integrity":
        return "\n".join(lines + [tables.integrity_table(samples, best["ours"])])
    if args.mode == "sweep":
        return "\n".join(lines + [tables.sweep_table(figures, args.ranks)])
    return "\n".join(lines + [tables.table(figures, tables.FP32, args.ranks), "",
                              tables.table(figures, tables.HALF, args.ranks), "",
                              tables.verdicts(figures, args.ranks)])


def main():
    args = parse()
    samples = []
    if args.json and pathlib.Path(args.json).exists():
        samples = json.loads(pathlib.Path(args.json).read_text(encoding="utf-8"))
    samples += measure(args)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(samples, indent=1) + "\n", encoding="utf-8")
    print(report(samples, args))
    return 0


if __name__ == "__main__":
    sys.exit(main())
