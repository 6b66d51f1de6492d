"""A minute of chaos: one fault of each kind, then random ones; and half of one through parameter servers."""

import os
import unittest

from tests import report
from tests.chaos import chaos
from tests.chaos import run
from tests.integration.cluster import namespaces_unavailable


class ChaosTest(unittest.TestCase):
    @unittest.skipIf(namespaces_unavailable(), namespaces_unavailable())
    def test_a_job_outlives_a_minute_of_faults(self):
        self._run(seconds=60)

    @unittest.skipIf(namespaces_unavailable(), namespaces_unavailable())
    def test_a_job_with_parameter_servers_outlives_faults(self):
        self._run(seconds=30, workers=3, servers=2, scripted=False)

    def _run(self, **options):
        # The budget is generous: a loaded test machine is not a fault.
        options = chaos.Options(seed=int(os.environ.get("CHAOS_SEED", "1")), budget=3, **options)
        is_good, text = run.run(options, os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR"))
        print(text)
        self.assertTrue(is_good, text)


if __name__ == "__main__":
    report.main()
