"""Derives the figures in docs/compare.md from the run that its pictures show.

    python3 -m tests.docs.compare_figures .logs/compare-TIME/scaling
    REWRITE_PICTURES=1 bazel run //server/ctl/compare:page_pictures_test

The first takes a run's figures over into docs/images/ and prints the sentences, which that page must have: compare_figures_test checks it. The
second draws the pictures of them."""

import json
import pathlib
import statistics
import sys

FIGURES = pathlib.Path("docs/images/compare_figures.json")


def busiest_bytes(run):
    return max(max(rank["sent_bytes"], rank["received_bytes"]) for rank in run["ranks"])


def summary(comparison):
    """The part of a comparison.json that the sentences need."""
    conditions = {key: comparison["conditions"][key] for key in ("time", "version", "machine", "place", "link", "batch", "model")}
    # Each has as many wire bytes in every turn.
    first = {(run["mode"], run["variant"], run["workers"]): run for run in reversed(comparison["runs"])}
    runs = []
    for combination in comparison["combinations"]:
        key = {name: combination[name] for name in ("mode", "variant", "workers")}
        run = first[tuple(key.values())]
        runs.append({**key, "wire_bytes": run["wire_bytes"], "busiest_bytes": busiest_bytes(run),
                     "samples_per_second": combination["samples_per_second"]["median"],
                     "least_samples_per_second": combination["samples_per_second"]["least"],
                     "most_samples_per_second": combination["samples_per_second"]["most"],
                     "step_seconds": combination["step_seconds"]["median"],
                     "predicted_step_seconds": combination["theory"]["step_seconds"]})
    return {"conditions": conditions, "runs": runs}


def sentences(figures):
    runs = {(run["mode"], run["variant"], run["workers"]): run for run in figures["runs"]}
    counts = sorted({run["workers"] for run in figures["runs"]})
    most = counts[-1]

    def times(mode, workers):
        run = runs[mode, "", workers]
        return run["busiest_bytes"] / run["wire_bytes"]

    def gain(better, worse):
        """In percent, with the fewest and the most that it brings."""
        gains = [100 * (runs["ring", better, n]["samples_per_second"] / runs["ring", worse, n]["samples_per_second"] - 1) for n in counts]
        return f"{min(gains):.0f} to {max(gains):.0f} %"

    ratio = runs["ring", "", most]["samples_per_second"] / runs["gather_broadcast", "", most]["samples_per_second"]
    errors = [abs(run["predicted_step_seconds"] / run["step_seconds"] - 1) for run in figures["runs"]
              if run["predicted_step_seconds"] is not None]
    return [
        f"a GPT with {runs['ring', '', most]['wire_bytes'] / 1e6:.1f} MB of gradients",
        f"A ring's node moves {times('ring', counts[0]):.2f} times the gradients with {counts[0]} workers and "
        f"{times('ring', most):.2f} times with {most}, and never more than twice",
        f"the root of gather-broadcast, which is how DataParallel brings gradients together, {times('gather_broadcast', most):.1f} times, "
        f"one parameter server {times('ps:1', most):.1f} times.",
        f"An epoch with {most} workers takes {ratio:.1f} times as long through the root as by the ring.",
        f"On the ring overlap brings {gain('', 'no overlap')} more samples a second, a 16-bit wire {gain('16-bit wire', '')}, "
        f"four micro-batches {gain('4 micro-batches', '')}.",
        f"Predictions of the step were {100 * statistics.median(errors):.0f} % off in the median of {len(errors)} runs, "
        f"{100 * max(errors):.0f} % at most.",
    ]


def main(directory):
    comparison = json.loads((directory / "comparison.json").read_text())
    failed = [run["failure"] for run in comparison["runs"] if run["failure"]]
    if failed or comparison["conditions"]["is_cut_short"]:
        sys.exit(f"error: {directory}: not all runs succeeded: {failed}")
    FIGURES.write_text(json.dumps(summary(comparison), indent=1) + "\n")
    print("\n".join(sentences(json.loads(FIGURES.read_text()))))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
