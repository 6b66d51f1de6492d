"""Turns run.py's samples into medians of undisturbed rounds, tables in Markdown, and the aims that are met or missed."""

import collections
import statistics

MAX_PROBE = 1.3   # times the best
MIN_ROUNDS = 5    # fewer are no claim

SHM = ["OpenMPI shm", "OpenMPI shm, 1 MiB segments"]
TCP = ["OpenMPI TCP", "OpenMPI TCP, 1 MiB segments"]
GLOO = ["Gloo ring", "Gloo halving-doubling"]
BUSY = "Gloo halving-doubling, busy-polling"
FP32 = ["ours shm", "ours shm, in place", "ours unix", "ours tcp", *GLOO, BUSY, *SHM, *TCP]
HALF = ["ours shm", "ours shm bf16", "ours shm fp16", "ours tcp", "ours tcp bf16", "ours tcp fp16", "Gloo ring fp16"]

KIB, MIB = 1 << 10, 1 << 20
# The fastest of `peers` over ours should be `least`.
Aim = collections.namedtuple("Aim", "title ranks sizes ours peers least")
AIMS = [
    Aim("TCP, Gloo", 2, [MIB, 4 * MIB, 64 * MIB], "ours tcp", GLOO, 2.0),
    Aim("TCP, OpenMPI", 2, [MIB, 4 * MIB], "ours tcp", TCP, 1.0),
    Aim("TCP, OpenMPI default", 2, [64 * MIB], "ours tcp", TCP[:1], 2.2),
    Aim("TCP, OpenMPI", 2, [64 * MIB], "ours tcp", TCP, 2.2),
    Aim("TCP, Gloo", 2, [4 * KIB], "ours tcp", GLOO, 8.0),
    Aim("TCP, Gloo busy-polling", 2, [4 * KIB], "ours tcp", [BUSY], 2.0),
    Aim("TCP, OpenMPI", 2, [4 * KIB], "ours tcp", TCP, 1.2),
    Aim("shared memory, OpenMPI default", 2, [64 * MIB], "ours shm", SHM[:1], 4.0),
    Aim("shared memory, OpenMPI best", 2, [64 * MIB], "ours shm", SHM, 1.8),
    Aim("shared memory, OpenMPI best", 2, [MIB, 4 * MIB], "ours shm", SHM, 1.6),
    Aim("in place, OpenMPI default", 2, [64 * MIB], "ours shm, in place", SHM[:1], 4.0),
    Aim("in place, OpenMPI best", 2, [64 * MIB], "ours shm, in place", SHM, 1.8),
    Aim("in place, OpenMPI best", 2, [MIB, 4 * MIB], "ours shm, in place", SHM, 4.0),
    Aim("fp16, TCP, Gloo fp16", 2, [MIB, 64 * MIB], "ours tcp fp16", ["Gloo ring fp16"], 6.0),
    Aim("fp16, shared memory, Gloo fp16", 2, [MIB, 64 * MIB], "ours shm fp16", ["Gloo ring fp16"], 20.0),
    Aim("TCP, Gloo", 4, [4 * KIB], "ours tcp", GLOO, 5.0),
    Aim("shared memory, Gloo", 4, [4 * KIB], "ours shm", GLOO, 5.0),
]


def merge(samples, best_probes):
    """{(name, ranks, bytes): median seconds of its accepted rounds, or None if they are too few}, and how many were dropped.

    A sample is dropped if its probe took more than MAX_PROBE times the best of its program, by `best_probes`.
    """
    accepted, dropped = collections.defaultdict(list), 0
    for sample in samples:
        key = (sample["name"], sample["ranks"], sample["bytes"])
        if sample["probe_ns"] > MAX_PROBE * best_probes[sample["program"]]:
            dropped += 1
            accepted[key] += []
        else:
            accepted[key].append(sample["seconds"])
    return {key: statistics.median(rounds) if len(rounds) >= MIN_ROUNDS else None
            for key, rounds in accepted.items()}, dropped


def size_text(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


def time_text(seconds):
    if seconds is None:
        return "-"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us" if seconds < 1e-4 else f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1e-2 else f"{seconds * 1e3:.1f} ms"


def table(figures, names, ranks):
    """Times by size and candidate; those that were not measured at all are left out."""
    names = [name for name in names if any(key[:2] == (name, ranks) for key in figures)]
    sizes = sorted({size for name, its_ranks, size in figures if its_ranks == ranks and name in names})
    lines = ["| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for size in sizes:
        cells = [time_text(figures.get((name, ranks, size))) for name in names]
        lines.append(f"| {size_text(size)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def verdicts(figures, ranks):
    """A line for each aim that was measured: the fastest of its peers over ours."""
    lines = ["| against | size | ours | fastest peer | ratio | aim | |", "|---" * 7 + "|"]
    for aim in AIMS:
        for size in aim.sizes if aim.ranks == ranks else ():
            ours = figures.get((aim.ours, ranks, size))
            peers = [(figures[peer, ranks, size], peer) for peer in aim.peers if figures.get((peer, ranks, size))]
            if ours is None or not peers:
                continue
            seconds, peer = min(peers)
            ratio = seconds / ours
            lines.append(f"| {aim.title} | {size_text(size)} | {time_text(ours)} | {peer}: {time_text(seconds)} | "
                         f"{ratio:.2f} | {aim.least:g} | {'met' if ratio >= aim.least else 'missed'} |")
    return "\n".join(lines)


def sweep_table(figures, ranks):
    names = sorted({name for name, its_ranks, _ in figures if its_ranks == ranks})
    return table(figures, names, ranks)


def wire_table(entries):
    """The worst of all sizes and ranks for each transport and algorithm. Theory is 2K(n-1)/n a rank."""
    groups = collections.defaultdict(list)
    for entry in entries:
        groups[entry["ranks"], entry["wire"], entry["algorithm"]].append(entry)
    lines = ["| ranks | transport | algorithm | payload / theory, least to most over ranks and sizes | framing / payload, most |",
             "|---" * 5 + "|"]
    for (ranks, transport, algorithm), group in sorted(groups.items()):
        shares = [entry["payload"] / (2 * entry["bytes"] * (ranks - 1) / ranks) for entry in group]
        framing = max(entry["framing"] / entry["payload"] for entry in group if entry["payload"])
        lines.append(f"| {ranks} | {transport} | {algorithm} | {min(shares):.4f} to {max(shares):.4f} | {framing:.3%} |")
    return "\n".join(lines)


def integrity_table(samples, best_probe):
    """The cost of checksums and of encryption: the medians of each, and of the ratios to plain frames in each undisturbed round, with the
    middle half of these."""
    kinds = ("crc32c", "aes-256-gcm")
    rounds = collections.defaultdict(lambda: collections.defaultdict(list))
    for sample in samples:
        rounds[sample["bytes"]][sample["name"]].append(sample)
    lines = ["| | none |" + "".join(f" {kind} | cost | half of the rounds |" for kind in kinds) + " rounds |",
             "|---" * (3 + 3 * len(kinds)) + "|"]
    for size, by_name in sorted(rounds.items()):
        taken = [turn for turn in zip(*(by_name[name] for name in ("none", *kinds)))
                 if max(sample["probe_ns"] for sample in turn) <= MAX_PROBE * best_probe]
        if len(taken) < MIN_ROUNDS:
            lines.append(f"| {size_text(size)} | -" + " | - | - | -" * len(kinds) + f" | {len(taken)} |")
            continue
        seconds = [[sample["seconds"] for sample in of_kind] for of_kind in zip(*taken)]
        line = f"| {size_text(size)} | {time_text(statistics.median(seconds[0]))} |"
        for protected in seconds[1:]:
            low, middle, high = statistics.quantiles([after / before - 1 for before, after in zip(seconds[0], protected)],
                                                     method="inclusive")
            line += f" {time_text(statistics.median(protected))} | {middle:+.1%} | {low:+.1%} to {high:+.1%} |"
        lines.append(f"{line} {len(taken)} |")
    return "\n".join(lines)


def dead_rank_table(entries):
    lines = ["| transport | kills | p50 | most | survivors that blame the dead rank itself |", "|---" * 5 + "|"]
    for transport in sorted({entry["dead_rank"] for entry in entries}):
        group = [entry for entry in entries if entry["dead_rank"] == transport]
        took = [entry["slowest_ms"] for entry in group]
        lines.append(f"| {transport} | {len(group)} | {statistics.median(took):.2f} ms | {max(took):.2f} ms | "
                     f"{sum(entry['named'] for entry in group)} of {sum(entry['survivors'] for entry in group)} |")
    return "\n".join(lines)
