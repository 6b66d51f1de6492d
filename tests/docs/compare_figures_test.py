"""Tests that the figures in docs/compare.md are those of the run that its pictures show."""

import json
import pathlib
import re
import unittest

from tests import report
from tests.docs import compare_figures


class CompareFiguresTest(unittest.TestCase):
    def setUp(self):
        self.figures = json.loads(compare_figures.FIGURES.read_text())

    def test_the_page_says_what_the_run_showed(self):
        page = re.sub(r"\s+", " ", pathlib.Path("docs/compare.md").read_text())
        for sentence in compare_figures.sentences(self.figures):
            self.assertIn(sentence, page)

    def test_the_classic_claims_hold_in_it(self):
        runs = {(run["mode"], run["workers"]): run for run in self.figures["runs"] if not run["variant"]}
        for workers in (2, 4, 8):
            ring, server, root = (runs[mode, workers] for mode in ("ring", "ps:1", "gather_broadcast"))
            self.assertAlmostEqual(ring["busiest_bytes"] / ring["wire_bytes"], 2 * (workers - 1) / workers, delta=0.02)
            self.assertAlmostEqual(server["busiest_bytes"] / server["wire_bytes"], workers, delta=0.1 * workers)
            self.assertAlmostEqual(root["busiest_bytes"] / root["wire_bytes"], workers - 1, delta=0.02 * workers)
            self.assertGreater(ring["samples_per_second"], root["samples_per_second"])
            self.assertGreater(ring["samples_per_second"], server["samples_per_second"])


if __name__ == "__main__":
    report.main()
