"""A minute of chaos: one fault of each kind, then random ones; half of one through parameter servers; and what a cut link costs."""

import os
import re
import unittest

from tests import report
from tests.chaos import chaos
from tests.chaos import run
from tests.chaos import soak
from tests.integration.cluster import namespaces_unavailable

SEED = int(os.environ.get("CHAOS_SEED", "1"))
LOGS = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")


class ChaosTest(unittest.TestCase):
    @unittest.skipIf(namespaces_unavailable(), namespaces_unavailable())
    def test_a_job_outlives_a_minute_of_faults(self):
        self._run(seconds=60)

    @unittest.skipIf(namespaces_unavailable(), namespaces_unavailable())
    def test_a_job_with_parameter_servers_outlives_faults(self):
        self._run(seconds=30, workers=3, servers=2, scripted=False)

    @unittest.skipIf(namespaces_unavailable(), namespaces_unavailable())
    def test_a_cut_between_two_members_costs_no_more_than_it_may(self):
        for servers in (0, 2):
            with self.subTest(servers=servers):
                options = chaos.Options(seed=SEED, seconds=10, faults=1, kinds=("cut_pair",), scripted=False, servers=servers)
                with run.cluster_under(options, logs=LOGS) as cut:
                    cut.run()
                self.assertFalse(chaos.failed(cut), chaos.table(cut))
                recovery, cost = cut.results[0].recovery, cut.results[0].cost
                print(f"cut_pair, servers={servers}: {recovery:.3f} s ({cost})")
                self.assertLess(recovery, soak.BUDGETS["cut_pair"])
                detect = int(re.search(r"detect (\d+) ms", cost)[1]) / 1000
                self.assertAlmostEqual(detect, recovery, delta=1.0)

    def _run(self, **options):
        # The budget is generous: a loaded test machine is not a fault.
        options = chaos.Options(seed=SEED, budget=3, **options)
        is_good, text = run.run(options, LOGS)
        print(text)
        self.assertTrue(is_good, text)


if __name__ == "__main__":
    report.main()
