"""Tests run.py's tables from made-up samples, and that it skips where PyTorch is missing."""

import contextlib
import io
import unittest
from unittest import mock

from tests import report
from tests.bench.recovery_vs_torchrun import run


def figures(*samples, step=0.01):
    return {"samples": [dict(zip(("next_step", "caught_up", "steps_lost"), sample)) for sample in samples],
            "step_seconds": step}


class RunTest(unittest.TestCase):
    def test_candidates_are_side_by_side(self):
        text = run.table({"ours": figures((0.05, 0.05, 0)), "torchrun": figures((9.0, 12.0, 40), (10.0, 13.0, 60))})
        self.assertIn("| | ours | torchrun |", text)
        self.assertIn("| kill to next step, p50, s | 0.050 | 9.000 |", text)
        self.assertIn("| kill to first new step, p99, s | 0.050 | 13.000 |", text)
        self.assertIn("| steps lost, in all | 0 | 100 |", text)

    def test_a_step_is_the_median_of_its_distances(self):
        self.assertAlmostEqual(run.step_seconds([(0.0, 1), (0.1, 2), (0.2, 3), (9.0, 2), (9.1, 3)]), 0.1)

    def test_without_pytorch_it_skips_with_a_reason(self):
        with mock.patch.object(run.importlib.util, "find_spec", return_value=None), mock.patch("sys.argv", ["run"]), \
                contextlib.redirect_stdout(io.StringIO()) as output:
            self.assertEqual(run.main(), 0)
        self.assertRegex(output.getvalue(), "skipped, PyTorch is not installed")

    def test_bad_arguments_are_refused(self):
        for arguments in (["--kills=0"], ["--workers=1"], ["--only=horovod"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                run.parse(arguments)


if __name__ == "__main__":
    report.main()
