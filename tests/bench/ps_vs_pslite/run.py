"""Parameter servers on this host: ours beside ps-lite, in one run, and a table in Markdown.

  git clone https://github.com/dmlc/ps-lite /tmp/ps-lite && apt-get install libzmq3-dev
  bazel build //tests/bench/ps_vs_pslite:ps_bench
  chrt -r 1 /usr/bin/python3 -m tests.bench.ps_vs_pslite.run --bin=bazel-bin/tests/bench/ps_vs_pslite/ps_bench --pslite=/tmp/ps-lite

A step: two workers push a gradient of --mib MiB each, and pull what one server makes of both; one worker, where it is 64
bytes, whose latency is what counts. ps-lite gets the same, in parts
of 1 MiB, which suit it best, with a handler that adds vectors (pslite_peer.cc); it has neither an optimizer on the server nor
shared memory. Rounds follow one another, so that a disturbance of the machine hits both; figures are medians over all steps of
all rounds. Every result is checked by the programs themselves. Without --pslite the baseline is one that was measured
before, on another machine, and is marked so.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile

PATIENCE = 120.0
# Two cores of an AMD EPYC (Zen 4), ps-lite 15b8adf, medians of three quiet runs.
STORED = {"large": 64 * 2**20 / 0.97e9, "small": 171e-6}
# Transport, connections with the server (train.collective.connections), replicas, size; the least that ours must reach, and the
# aim.
ROWS = (("synchronous, TCP loopback", "tcp", 1, 0, "large", 1.5, 2.0),
        ("synchronous, TCP loopback, two connections", "tcp", 2, 0, "large", 1.5, 2.0),
        ("synchronous, shared memory", "shared_memory", 1, 0, "large", 3.0, 5.0),
        ("synchronous, shared memory, two connections", "shared_memory", 2, 0, "large", 3.0, 5.0),
        ("the same with a replica, TCP loopback", "tcp", 2, 1, "large", None, None),
        ("the same with a replica, shared memory", "shared_memory", 2, 1, "large", None, None),
        ("64 bytes, TCP loopback", "tcp", 1, 0, "small", 3.0, 10.0),
        ("64 bytes, shared memory", "shared_memory", 1, 0, "small", 3.0, 10.0))
# The key of ps-lite's row in the measurements.
PEER = ("ps-lite", 1, 0)


def parse(arguments=None):
    parser = argparse.ArgumentParser(description="Parameter servers on one host: ours beside ps-lite.")
    parser.add_argument("--bin", required=True, help="ps_bench")
    parser.add_argument("--pslite", type=pathlib.Path, help="a checkout of ps-lite; without it a stored baseline is shown")
    parser.add_argument("--mib", type=int, default=64, help="size of the parameters")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=20, help="steps of a round, after 3 that do not count")
    parser.add_argument("--json", help="file for the samples")
    args = parser.parse_args(arguments)
    if args.rounds < 1 or args.iterations < 1 or args.mib < 1:
        parser.error("--rounds, --iterations and --mib must be at least 1")
    if args.pslite and not (args.pslite / "include/ps/ps.h").exists():
        parser.error(f"--pslite: {args.pslite} has no include/ps/ps.h")
    return args


def build_peer(checkout, directory):
    """ps-lite and pslite_peer.cc as one program."""
    flags = ["g++", "-std=c++17", "-O3", "-march=native", "-w", "-DDMLC_USE_ZMQ", f"-I{checkout}/include", f"-I{directory}"]
    subprocess.run(["protoc", f"--proto_path={checkout}/src", f"--cpp_out={directory}", "meta.proto"], check=True)
    sources = [checkout / "src" / name for name in ("customer.cc", "postoffice.cc", "van.cc")]
    sources += [pathlib.Path(directory) / "meta.pb.cc", pathlib.Path(__file__).with_name("pslite_peer.cc")]
    peer = pathlib.Path(directory) / "pslite_peer"
    subprocess.run([*flags, f"-I{checkout}/src", *map(str, sources), "-o", str(peer), "-lzmq", "-lprotobuf", "-lpthread"],
                   check=True)
    return peer


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_peer(peer, size, args):
    """The seconds of each step, by worker 0."""
    environment = {**os.environ, "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(free_port()),
                   "DMLC_NODE_HOST": "127.0.0.1", "DMLC_NUM_SERVER": "1", "DMLC_NUM_WORKER": str(workers(size))}
    command = [str(peer), str(size), str(min(size, 1 << 20)), str(steps(size, args)), "3"]
    processes = [subprocess.Popen(command, env={**environment, "DMLC_ROLE": role}, stdout=subprocess.PIPE, text=True)
                 for role in ["scheduler", "server"] + workers(size) * ["worker"]]
    try:
        outputs = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(process.returncode for process in processes):
        sys.exit(f"ps-lite ended with {[process.returncode for process in processes]}")
    return seconds_of("".join(outputs))


def run_ours(args, transport, connections, replicas, size):
    command = [args.bin, f"--transport={transport}", f"--bytes={size}", f"--workers={workers(size)}", "--servers=1",
               f"--connections={connections}", f"--replicas={replicas}", f"--iterations={steps(size, args)}", "--warmup=3"]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {result.returncode}")
    return seconds_of(result.stdout)


def steps(size, args):
    """Small ones take little time; 200 is the most that ps_bench measures."""
    return min(200, args.iterations * (1 if size > 4096 else 10))


def workers(size):
    return 2 if size > 4096 else 1


def seconds_of(output):
    return [second for line in output.splitlines() if line.startswith("{") for second in json.loads(line)["seconds"]]


def measure(args, peer):
    """{(transport, connections, replicas, kind of size): seconds of each step}; PEER's are ps-lite's."""
    sizes = {"large": args.mib << 20, "small": 64}
    samples = {}
    for number in range(args.rounds):
        for _, *how, kind, _, _ in ROWS:
            samples.setdefault((*how, kind), []).extend(run_ours(args, *how, sizes[kind]))
        for kind, size in sizes.items() if peer else ():
            samples.setdefault((*PEER, kind), []).extend(run_peer(peer, size, args))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    return samples


def figure(seconds, kind, mib):
    return f"{seconds * 1e6:.1f} us" if kind == "small" else f"{(mib << 20) / seconds / 1e9:.2f} GB/s"


def table(samples, mib):
    """`samples` as of measure. GB/s are bytes of the parameters a second, pushed and pulled."""
    medians = {key: statistics.median(values) for key, values in samples.items()}
    lines = ["| step | ours | ps-lite | ratio | aim |", "|---|---|---|---|---|"]
    for name, *how, kind, aim, stretch in ROWS:
        ours = medians[(*how, kind)]
        peer = medians.get((*PEER, kind))
        theirs = figure(peer or STORED[kind], kind, mib if peer else 64) + ("" if peer else " (stored)")
        if aim is None:
            lines.append(f"| {name} | {figure(ours, kind, mib)} | has none | | |")
            continue
        ratio = (peer or STORED[kind]) / ours
        reached = "stretch" if ratio >= stretch else "yes" if ratio >= aim else "missed"
        lines.append(f"| {name} | {figure(ours, kind, mib)} | {theirs} | {ratio:.2f} | {aim:g} ({stretch:g}): {reached} |")
    return "\n".join(lines)


def main():
    args = parse()
    with tempfile.TemporaryDirectory() as directory:
        samples = measure(args, build_peer(args.pslite, directory) if args.pslite else None)
    if args.json:
        keyed = {"/".join(map(str, key)): values for key, values in samples.items()}
        pathlib.Path(args.json).write_text(json.dumps(keyed, indent=1) + "\n", encoding="utf-8")
    print(f"2 workers, 1 server, {args.mib} MiB, {os.cpu_count()} cores\n\n{table(samples, args.mib)}")
    if not args.pslite:
        print("\n(stored): measured before, on another machine; give --pslite to measure it here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
