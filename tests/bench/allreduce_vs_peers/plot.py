"""Bus bandwidth by size, ours beside the peers, as an SVG. Needs matplotlib (deploy/packages-bench.txt)."""

from tests.bench.allreduce_vs_peers import tables

# Title, colour, and the candidates of which the fastest at each size is drawn. Ours are solid.
LINES = [
    ("ours, shared memory, in place", "#0b6e4f", ["ours shm, in place"]),
    ("ours, shared memory", "#3fb07f", ["ours shm"]),
    ("ours, TCP", "#2f6fb7", ["ours tcp"]),
    ("OpenMPI, shared memory", "#c1666b", tables.SHM),
    ("OpenMPI, TCP", "#d9a05b", tables.TCP),
    ("Gloo, TCP", "#7d7d7d", tables.GLOO),
]


def curves(figures, ranks):
    """[(title, colour, sizes, bytes a second)] of the measured sizes. Bus bandwidth as nccl-tests has it: 2(n-1)/n of bytes / time."""
    found = []
    for title, colour, names in LINES:
        best = {}
        for (name, its_ranks, size), seconds in figures.items():
            if name in names and its_ranks == ranks and seconds:
                best[size] = max(best.get(size, 0), size / seconds * 2 * (ranks - 1) / ranks)
        if best:
            found.append((title, colour, sorted(best), [best[size] for size in sorted(best)]))
    return found


def draw(figures, ranks, path):
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "ringmaster", "svg.fonttype": "none", "font.family": "sans-serif"})
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for title, colour, sizes, rates in curves(figures, ranks):
        axes.plot(sizes, [rate / 1e9 for rate in rates], label=title, color=colour, marker="o", markersize=3.5,
                  linewidth=2 if title.startswith("ours") else 1.4, linestyle="-" if title.startswith("ours") else "--")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks = sorted({size for _, ranks_of, size in figures if ranks_of == ranks})
    axes.set_xticks(ticks, [tables.size_text(size) for size in ticks])
    axes.set_yticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    axes.minorticks_off()
    axes.set_ylabel("bus bandwidth, GB/s")
    axes.set_title(f"All-reduce of float32 among {ranks} processes of one host", fontsize=11)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
