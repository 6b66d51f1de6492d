"""A soak's judgement and report, of phases that are made up."""

import os
import unittest

from tests import report
from tests.chaos import chaos
from tests.chaos import scenarios
from tests.chaos import soak

MIB = 2**20


def survived(kind, recovery, *failures):
    return chaos.Result(scenarios.Fault(kind, ["w1"], 0.0, 1, {}), recovery, failures=list(failures))


def phase(name, results, seconds=600.0, **fields):
    values = {"failures": [], "steps": 1000, "lost_steps": 0, "used": {}} | fields
    return soak.Phase(name, results, seconds=seconds, **values)


class SoakTest(unittest.TestCase):
    def judge(self, *phases):
        return soak.judge(list(phases), 0.95)

    def test_faults_within_their_budgets_pass(self):
        fast = phase("workers", [survived("kill", 0.03)] * 10 + [survived("freeze", 1.6)])
        self.assertEqual(self.judge(fast, phase("slow", [survived("kill", 0.03)] * 40, is_paced=True)), [])

    def test_each_promise_that_is_broken_is_told(self):
        slow = phase("slow", [survived("kill", 0.1)] * 40, is_paced=True)
        for broken, words in (
                (phase("workers", [survived("kill", 0.6)]), "workers: stood still for 1 s, more than its faults' 0 s"),
                (phase("workers", [survived("kill", 0.1)], lost_steps=3), "3 steps were lost"),
                (phase("workers", [survived("kill", 0.1, "w2 blamed for kill of w1")]), "1 of 41 verdicts were wrong"),
                (phase("workers", [survived("kill", 0.1)], failures=["not in time: the end"]), "workers: not in time: the end")):
            with self.subTest(words):
                self.assertEqual(self.judge(broken, slow), [words])
        fast = phase("workers", [survived("kill", 0.1)])
        self.assertEqual(self.judge(fast, phase("slow", [survived("kill", 1.0)] * 40, is_paced=True)), ["slow: goodput below 95%"])
        self.assertEqual(self.judge(phase("workers", []), slow), ["workers: no fault was survived"])

    def test_a_process_that_grows_is_told(self):
        use = soak.Use(7, 100 * MIB, 40, 12)
        self.assertEqual(soak.growths(use, soak.Use(7, 120 * MIB, 50, 16)), [])
        self.assertEqual(soak.growths(use, soak.Use(7, 127 * MIB, 61, 22)),
                         ["grew from 100 to 127 MiB", "grew from 40 to 61 descriptors", "grew from 12 to 22 threads"])

    def test_what_a_process_uses_is_read_from_the_kernel(self):
        use = soak.use_of(os.getpid())
        self.assertGreater(use.resident_bytes, MIB)
        self.assertGreaterEqual(use.descriptors, 3)
        self.assertGreaterEqual(use.threads, 1)

    def test_the_report_has_each_kind_with_its_budget(self):
        uses = {"w0": (soak.Use(7, 100 * MIB, 40, 12), soak.Use(7, 101 * MIB, 40, 12))}
        phases = [phase("workers", [survived("kill", 0.02), survived("kill", 0.04), survived("freeze", 1.5)], used=uses)]
        text = soak.report(phases, ["3 steps were lost"])
        for line in ("| workers | 3 | 10 | 1,000 | 0 | 2 | 99.7% | 0 |", "| `kill` | 2 | 0.030 | 0.040 | 0.040 | 0.5 |",
                     "| w0 | workers | 100 -> 101 | 40 -> 40 | 12 -> 12 |", "WRONG: 3 steps were lost"):
            self.assertIn(line, text.splitlines())

    def test_each_kind_of_fault_has_a_budget(self):
        self.assertEqual(set(soak.BUDGETS), set(scenarios.KINDS))

    def test_wrong_flags_are_told_in_one_line(self):
        for flags in (["--workers=3"], ["--faults=1"], ["--minutes=0"], ["--phases=workers,fast"]):
            with self.assertRaises(SystemExit) as raised:
                soak.parse(flags)
            self.assertEqual(raised.exception.code, 2)


if __name__ == "__main__":
    report.main()
