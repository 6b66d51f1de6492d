"""Tests run.py's tables from made-up samples. Nothing here depends on how fast anything is."""

import contextlib
import io
import unittest

from tests import report
from tests.bench.recovery import run
from tests.bench.recovery import samples
from tests.gpu import benchmarks


def result(kind="kill", blamed="w1", lost_steps=0, **phases):
    return {"kind": kind, "rank": 1, "worker": "w1", "blamed": blamed, "lost_steps": lost_steps, "end_to_end": 0.05, "verdict_after": 0.01,
            "coordinator_total": 0.04, **{phase: 0.01 for phase in run.PHASES}, **phases}


class SamplesTest(unittest.TestCase):
    def test_percentiles_are_samples(self):
        values = [float(value) for value in range(1, 31)]
        self.assertEqual([samples.percentile(values, share) for share in (0.5, 0.9, 0.99, 1.0)], [15.0, 27.0, 30.0, 30.0])
        self.assertEqual(samples.percentile([3.0, 1.0], 0.5), 1.0)

    def test_no_samples_have_no_figures(self):
        self.assertIsNone(samples.summary([]))
        self.assertEqual(samples.row("x", []), "| x | 0 | - | - | - | - |")


class RunTest(unittest.TestCase):
    def test_the_first_step_after_is_one_of_a_later_generation(self):
        steps = [(1.0, 10, 1), (2.0, 11, 1), (3.5, 12, 2), (4.0, 13, 3)]
        self.assertEqual(run.first_step_after(steps, 1), 3.5)

    def test_the_table_has_each_phase(self):
        text = run.table([result(halt=0.002), result(halt=None)])
        self.assertIn("| kill: end to end | 2 | 50.0 | 50.0 | 50.0 | 50.0 |", text)
        self.assertIn("| kill: halt | 1 | 2.0 | 2.0 | 2.0 | 2.0 |", text)
        self.assertNotIn("stop", text)

    def test_wrong_verdicts_and_lost_steps_are_told(self):
        text = run.table([result(), result(blamed="w2", lost_steps=4)])
        self.assertIn("committed steps lost: 4; wrong verdicts: 1 of 2", text)

    def test_rows_are_medians_of_kills_and_what_was_lost(self):
        arguments = run.parse(["--device=cuda", "--workers=3"])
        lines = run.rows([result(end_to_end=0.2), result(end_to_end=0.3, halt=None), result(end_to_end=0.9, lost_steps=2)], arguments)
        found = {row.what.partition(": ")[2]: row for row in benchmarks.rows_of(lines.splitlines())}
        self.assertEqual(found["to the next committed step, p50"].ours, 300.0)
        self.assertEqual(found["to the next committed step, largest"].ours, 900.0)
        self.assertEqual(found["halt, p50"].ours, 10.0)
        self.assertEqual(found["committed steps lost"].ours, 2)
        self.assertIn("3 kills, cuda", found["to the next committed step, p50"].note)

    def test_bad_arguments_are_refused(self):
        for arguments in (["--workers=1"], ["--kills=-1"], ["--spin=-1"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                run.parse(arguments)


if __name__ == "__main__":
    report.main()
