"""Tests run.py's table from made-up lines of the programs. Nothing here depends on how fast anything is."""

import argparse
import contextlib
import io
import json
import subprocess
import time
import unittest

from tests import report
from tests.bench.step_vs_torch import quiet
from tests.bench.step_vs_torch import run


def steps(*seconds):
    return [{"step": i + 1, "seconds": value, "cpu_seconds": value / 2, "tokens": 100} for i, value in enumerate(seconds)]


class Watch:
    """Finds exactly the given runs disturbed."""

    def __init__(self, *disturbed):
        self._disturbed = list(disturbed)

    def begin(self):
        return None

    def disturbance(self, _):
        return "a guest" if self._disturbed and self._disturbed.pop(0) else None


class RunTest(unittest.TestCase):
    def setUp(self):
        self.args = argparse.Namespace(rounds=2, attempts=2, steps=3, warmup=1)
        lines = "\n".join(json.dumps(step) for step in steps(9, 2, 4))
        self.template = f"printf '%s\\n' 'a log line' '{lines.replace('{', '{{').replace('}', '}}')}' '[1]' '{{{{}}}}'"

    def measure(self, watch):
        with contextlib.redirect_stderr(io.StringIO()) as log:
            candidates = {"ours": self.template, "PyTorch": self.template}
            figures, is_quiet = run.measure("gpt_14m:2:fp32", candidates, watch, self.args)
        return figures, is_quiet, log.getvalue()

    def test_only_step_lines_count(self):
        self.assertEqual(run.steps_of('noise\n{"start_seconds": 1}\n{"step": 1, "seconds": 2, "tokens": 3}\n7\n'),
                         [{"step": 1, "seconds": 2, "tokens": 3}])

    def test_first_steps_are_left_out(self):
        self.assertEqual(run.figure_of(steps(50, 4, 2, 1), 1), {"tokens_per_second": 50.0, "best": 100.0, "cpu_seconds": 1.0})

    def test_rounds_that_are_disturbed_are_repeated(self):
        figures, is_quiet, log = self.measure(Watch(False, True))
        self.assertTrue(is_quiet)
        self.assertEqual([len(rounds) for rounds in figures.values()], [2, 2])
        self.assertIn("try 3", log)
        self.assertIn("dropped: PyTorch: a guest", log)

    def test_without_a_quiet_round_all_count_and_the_table_says_so(self):
        figures, is_quiet, _ = self.measure(Watch(*[True] * 8))
        self.assertFalse(is_quiet)
        self.assertIn("4, disturbed", run.row("gpt_14m:2:fp32", figures, is_quiet))

    def test_the_ratio_is_ours_over_pytorch(self):
        figures = {"ours": [run.figure_of(steps(1, 1), 1)], "PyTorch": [run.figure_of(steps(1, 2), 1)]}
        self.assertEqual(run.row("gpt_14m:2:fp32", figures, True),
                         "| gpt_14m | 2 | fp32 | 100 (100) | 0.500 | 50 (50) | 1.000 | 2.00x | 1 |")

    def test_pytorch_alone_has_no_ratio(self):
        figures = {"PyTorch": [run.figure_of(steps(1, 2), 1)]}
        self.assertEqual(run.row("gpt_14m:1:bf16", figures, True), "| gpt_14m | 1 | bf16 | - | - | 50 (50) | 1.000 | - | 1 |")

    def test_a_program_that_fails_or_stops_early_is_named(self):
        for template in ("false", "echo no steps"):
            with self.assertRaisesRegex(SystemExit, f"^{template}: exit status"):
                run.run_once(template, "gpt_14m:2:fp32", self.args)

    def test_bad_arguments_are_refused(self):
        for arguments in (["--runs", "gpt_14m:2"], ["--runs", "bert:2:fp32"], ["--rounds", "0"], ["--steps", "2"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                run.parse(arguments)


class QuietTest(unittest.TestCase):
    def test_what_children_did_is_not_somebody_elses(self):
        before, own_before = quiet._own_seconds(), time.process_time()
        subprocess.run(["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"], check=True)
        of_children = (quiet._own_seconds() - before) - (time.process_time() - own_before)
        self.assertGreater(of_children, 0.01)

    def test_somebody_elses_share_is_named(self):
        watch = quiet.Quiet()
        before = watch.begin()
        # As if the processors had worked an hour more than known programs did.
        self.assertRegex(watch.disturbance(before._replace(busy=before.busy - 3600)), "others had .* of the cores")


if __name__ == "__main__":
    report.main()
