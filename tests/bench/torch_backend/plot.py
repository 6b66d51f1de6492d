"""The time of an all-reduce from Python by size, over both back ends, as an SVG. Needs matplotlib (deploy/packages-bench.txt)."""

import statistics

NAMES = {"gloo": ("gloo", "#7d7d7d", "--"), "ours": ("ringmaster", "#0b6e4f", "-")}


def curves(results, ranks):
    """[(backend, sizes, microseconds)] of `results`, as run.py's table has them."""
    points = sorted((int(what.split(":")[1]), seconds) for what, seconds in results[ranks].items() if what.startswith("all_reduce:"))
    return [(backend, [size for size, _ in points], [statistics.median(seconds[backend]) * 1e6 for _, seconds in points])
            for backend in NAMES]


def draw(results, size_text, path):
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "ringmaster", "svg.fonttype": "none", "font.family": "sans-serif"})
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    figure, all_axes = pyplot.subplots(1, len(results), figsize=(4.6 * len(results), 3.8), sharey=True, squeeze=False)
    for axes, ranks in zip(all_axes[0], results):
        for backend, sizes, times in curves(results, ranks):
            name, colour, line = NAMES[backend]
            axes.plot(sizes, times, label=name, color=colour, linestyle=line, marker="o", markersize=3.5, linewidth=1.8)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        ticks = [size for size in (4, 4 << 10, 64 << 10, 1 << 20, 64 << 20) if size in sizes]
        axes.set_xticks(ticks, [size_text(size) for size in ticks])
        axes.set_yticks([10, 100, 1000, 10000, 100000], ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms"])
        axes.minorticks_off()
        axes.set_title(f"{ranks} ranks", fontsize=11)
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=9)
    all_axes[0][0].set_ylabel("time of all_reduce")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
