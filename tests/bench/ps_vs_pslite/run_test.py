"""The comparison's own arithmetic and command line."""

import contextlib
import io
import unittest

from tests import report
from tests.bench.ps_vs_pslite import run


def samples(**changes):
    mib64 = 64 * 2**20
    result = {(*how, kind): [mib64 / 2e9] * 3 if kind == "large" else [50e-6] * 3 for _, *how, kind, _, _ in run.ROWS}
    result["tcp", 2, 0, "large"] = [mib64 / 1.25e9] * 3
    result[(*run.PEER, "large")] = [mib64 / 1e9] * 3
    result[(*run.PEER, "small")] = [100e-6] * 3
    result.update(changes)
    return result


class TableTest(unittest.TestCase):
    def test_compares_medians_with_the_aims(self):
        text = run.table(samples(), 64)
        self.assertIn("| synchronous, TCP loopback | 2.00 GB/s | 1.00 GB/s | 2.00 | 1.5 (2): stretch |", text)
        self.assertIn("| synchronous, TCP loopback, two connections | 1.25 GB/s | 1.00 GB/s | 1.25 | 1.5 (2): missed |", text)
        self.assertIn("| synchronous, shared memory | 2.00 GB/s | 1.00 GB/s | 2.00 | 3 (5): missed |", text)
        self.assertIn("| 64 bytes, TCP loopback | 50.0 us | 100.0 us | 2.00 | 3 (10): missed |", text)

    def test_a_baseline_that_was_not_measured_here_is_marked(self):
        without = {key: value for key, value in samples().items() if key[0] != "ps-lite"}
        text = run.table(without, 64)
        self.assertIn("0.97 GB/s (stored) | 2.06 | 1.5 (2): stretch |", text)
        self.assertIn("171.0 us (stored) | 3.42 | 3 (10): yes |", text)


class CommandLineTest(unittest.TestCase):
    def refused(self, *arguments):
        with contextlib.redirect_stderr(io.StringIO()) as stderr, self.assertRaises(SystemExit):
            run.parse(arguments)
        return stderr.getvalue().splitlines()[-1]

    def test_wrong_arguments_are_one_line(self):
        self.assertIn("--bin", self.refused())
        self.assertIn("at least 1", self.refused("--bin=x", "--rounds=0"))
        self.assertIn("has no include/ps/ps.h", self.refused("--bin=x", "--pslite=/tmp"))


if __name__ == "__main__":
    report.main()
