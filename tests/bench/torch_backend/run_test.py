"""Measures two calls for a moment with the real programs, and tests the table."""

import contextlib
import io
import unittest

from tests import report
from tests.bench.torch_backend import plot, run


class RunTest(unittest.TestCase):
    def test_measures_both_back_ends(self):
        results = run.measure(2, "--rounds=1", "--seconds=0.01", "--calls", "all_reduce:4096", "barrier:0")
        for what in ("all_reduce:4096", "barrier:0"):
            for backend in ("gloo", "ours"):
                self.assertGreater(results[what][backend][0], 0)

    def test_the_table_has_medians_side_by_side(self):
        text = run.table({2: {"all_reduce:1048576": {"gloo": [0.002, 0.004, 0.009], "ours": [0.001, 0.001, 0.5]},
                              "barrier:0": {"gloo": [1e-4], "ours": [2e-5]},
                              "gpt_14m": {"gloo": [2.0], "ours": [1.6]}}})
        self.assertIn("| 2 | `all_reduce`, 1 MiB | 4.0 ms | 1.0 ms | 4.00 |", text)
        self.assertIn("| 2 | `barrier` | 100 µs | 20 µs | 5.00 |", text)
        self.assertIn("| 2 | a step of gpt_14m | 2000.0 ms | 1600.0 ms | 1.25 |", text)

    def test_a_curve_goes_by_size(self):
        results = {2: {"all_reduce:64": {"gloo": [2e-6], "ours": [1e-6]}, "all_reduce:8": {"gloo": [3e-6, 5e-6, 4e-6], "ours": [1e-6]},
                       "barrier:0": {"gloo": [1], "ours": [1]}}}
        self.assertEqual([(backend, sizes, [round(time, 6) for time in times]) for backend, sizes, times in plot.curves(results, 2)],
                         [("gloo", [8, 64], [4.0, 2.0]), ("ours", [8, 64], [1.0, 1.0])])

    def test_bad_arguments_are_refused(self):
        for arguments in (["--ranks", "1"], ["--rounds=0"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                run.parse(arguments)


if __name__ == "__main__":
    report.main()
