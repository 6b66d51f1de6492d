"""Tests run.py's figures from made-up steps. Nothing here depends on how fast anything is."""

import contextlib
import io
import unittest

from tests import report
from tests.bench.scheduler import run


class RunTest(unittest.TestCase):
    def test_a_line_that_is_not_whole_yet_is_left_out(self):
        lines = ['{"kind": "step", "time": 1.5, "step": 1, "generation": 2}\n', '{"kind": "evaluation", "step": 1}\n', '{"kind": "st']
        self.assertEqual(run.parse_steps(lines), [(1.5, 1, 2)])

    def test_a_job_stands_still_until_the_first_step_of_a_generation(self):
        steps = [(1.0, 10, 1), (2.0, 11, 1), (2.5, 12, 2), (4.0, 13, 3)]
        self.assertEqual(run.stall(steps, 2), (0.5, 0))
        self.assertEqual(run.stall(steps, 3), (1.5, 0))

    def test_steps_that_are_made_again_are_counted(self):
        self.assertEqual(run.stall([(1.0, 10, 1), (2.0, 11, 1), (3.0, 9, 2)], 2), (1.0, 3))
        self.assertIn("steps made twice: 3", run.table([{"give_stall": 1.0, "made_twice": 3}, {"idle_first_step": 0.25}]))

    def test_the_table_has_each_figure(self):
        text = run.table([{"idle_first_step": 0.25}])
        self.assertIn("| idle pool: submit to the first step | 1 | 250.0 | 250.0 | 250.0 | 250.0 |", text)
        self.assertIn("| restart: the first job stands still | 0 | - | - | - | - |", text)

    def test_wrong_numbers_are_refused(self):
        for flags in (["--rounds=0"], ["--batch=3"]):
            with self.subTest(flags), self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                run.parse(flags)


if __name__ == "__main__":
    report.main()
