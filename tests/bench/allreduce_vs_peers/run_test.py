"""Tests run.py's tables from made-up samples. Nothing here depends on how fast anything is."""

import contextlib
import io
import pathlib
import unittest
from unittest import mock

from tests import report
from tests.bench.allreduce_vs_peers import plot
from tests.bench.allreduce_vs_peers import run
from tests.bench.allreduce_vs_peers import tables


def samples(name, *seconds, size=4 << 10, probe=50.0, ranks=2):
    return [{"name": name, "ranks": ranks, "bytes": size, "seconds": value, "probe_ns": probe, "program": "ours"}
            for value in seconds]


class TablesTest(unittest.TestCase):
    def test_figures_are_medians_of_undisturbed_samples(self):
        figures, dropped = tables.merge(samples("ours tcp", 1, 2, 3, 4, 9) + samples("ours tcp", 70, 80, probe=66), {"ours": 50})
        self.assertEqual(figures, {("ours tcp", 2, 4096): 3})
        self.assertEqual(dropped, 2)

    def test_too_few_undisturbed_samples_are_no_figure(self):
        figures, dropped = tables.merge(samples("ours tcp", 1, 2, 3, 4) + samples("ours tcp", 5, probe=66), {"ours": 50})
        self.assertEqual(figures, {("ours tcp", 2, 4096): None})
        self.assertEqual(dropped, 1)
        self.assertIn("| 4 KiB | - |", tables.table(figures, ["ours tcp"], 2))

    def test_candidates_are_side_by_side_and_those_not_measured_are_left_out(self):
        text = tables.table({("ours tcp", 2, 4096): 5e-6, ("Gloo ring", 2, 1 << 20): 25e-3, ("ours tcp", 4, 4096): 1.0},
                            tables.FP32, 2)
        self.assertEqual(text.splitlines(), ["| | ours tcp | Gloo ring |", "|---|---|---|", "| 4 KiB | 5.0 us | - |",
                                             "| 1 MiB | - | 25.0 ms |"])

    def test_an_aim_is_met_against_the_fastest_peer(self):
        figures = {("ours tcp", 2, 1 << 20): 1e-3, ("Gloo ring", 2, 1 << 20): 1.9e-3,
                   ("Gloo halving-doubling", 2, 1 << 20): 9e-3, ("OpenMPI TCP", 2, 1 << 20): 1e-3}
        text = tables.verdicts(figures, 2)
        self.assertIn("| TCP, Gloo | 1 MiB | 1.00 ms | Gloo ring: 1.90 ms | 1.90 | 2 | missed |", text)
        self.assertIn("| TCP, OpenMPI | 1 MiB | 1.00 ms | OpenMPI TCP: 1.00 ms | 1.00 | 1 | met |", text)

    def test_a_plot_has_the_fastest_of_each_peer_as_bus_bandwidth(self):
        figures = {("ours tcp", 4, 3000): 1e-3, ("OpenMPI TCP", 4, 3000): 3e-3, ("OpenMPI TCP, 1 MiB segments", 4, 3000): 2e-3,
                   ("ours tcp", 2, 3000): 1.0, ("Gloo ring", 4, 3000): None}
        drawn = [(title, sizes, rates) for title, _, sizes, rates in plot.curves(figures, 4)]
        self.assertEqual(drawn, [("ours, TCP", [3000], [4.5e6]), ("OpenMPI, TCP", [3000], [2.25e6])])

    def test_aims_without_both_sides_are_left_out(self):
        self.assertEqual(len(tables.verdicts({("ours tcp", 2, 1 << 20): 1e-3}, 2).splitlines()), 2)
        self.assertEqual(len(tables.verdicts({("Gloo ring", 2, 1 << 20): 1e-3}, 2).splitlines()), 2)

    def test_every_name_of_an_aim_is_a_candidate(self):
        for aim in tables.AIMS:
            for name in (aim.ours, *aim.peers):
                self.assertIn(name, tables.FP32 + tables.HALF)

    def test_bytes_are_beside_theory(self):
        entry = {"wire": "tcp", "algorithm": "ring", "ranks": 4, "rank": 0, "bytes": 4096, "payload": 6144, "framing": 384}
        text = tables.wire_table([entry, {**entry, "rank": 1, "payload": 12288}])
        self.assertIn("| 4 | tcp | ring | 1.0000 to 2.0000 | 6.250% |", text)

    def test_the_cost_of_checksums_and_encryption_is_that_of_rounds(self):
        rounds = [samples("none", none) + samples("crc32c", checked) + samples("aes-256-gcm", 2 * none)
                  for none, checked in ((1.0, 1.01), (2.0, 2.04), (1.0, 1.03), (1.0, 1.02), (1.0, 1.02))]
        disturbed = samples("none", 1.0) + samples("crc32c", 9.0, probe=66) + samples("aes-256-gcm", 9.0)
        text = tables.integrity_table(sum(rounds, []) + disturbed + samples("none", 1.0, size=1 << 20), 50)
        self.assertEqual(text.splitlines()[2:], [
            "| 4 KiB | 1000.0 ms | 1020.0 ms | +2.0% | +2.0% to +2.0% | 2000.0 ms | +100.0% | +100.0% to +100.0% | 5 |",
            "| 1 MiB | - | - | - | - | - | - | - | 0 |"])

    def test_kills_have_a_median_a_worst_and_a_culprit(self):
        entry = {"dead_rank": "tcp", "ranks": 4, "survivors": 3, "named": 3, "slowest_ms": 1.0}
        text = tables.dead_rank_table([entry, {**entry, "slowest_ms": 2.0, "named": 1}, {**entry, "slowest_ms": 9.0}])
        self.assertIn("| tcp | 3 | 2.00 ms | 9.00 ms | 7 of 9 |", text)


class RunTest(unittest.TestCase):
    def test_only_json_lines_count(self):
        self.assertEqual(run.entries_of('a warning\n{"name": "x"}\n', "mpi_peer"), [{"name": "x", "program": "mpi_peer"}])

    def test_mpi_yields_only_where_ranks_share_cores(self):
        for ranks, is_shared in ((2, False), (4, True)):
            args = run.parse(["--bin_dir=/b", f"--ranks={ranks}", "--kib", "4"])
            command = run.mpi_command(pathlib.Path("/b"), "OpenMPI TCP", args, "/page", 2)
            self.assertEqual("--oversubscribe" in command, is_shared)
            self.assertEqual(command[-4:], ["/b/mpi_peer", "/page", "OpenMPI TCP", "4K"])

    def test_a_program_that_fails_is_named(self):
        with self.assertRaisesRegex(SystemExit, "^false: exit status 1"):
            run.run(["false"], "ours")

    def test_a_program_that_hangs_is_ended_and_named(self):
        with mock.patch.object(run, "PATIENCE", 0.05), contextlib.redirect_stderr(io.StringIO()) as log:
            self.assertEqual(run.run(["sleep", "1000"], "ours"), [])
        self.assertIn("no end within", log.getvalue())

    def test_a_report_says_how_many_samples_were_disturbed(self):
        args = run.parse(["--bin_dir=/b"])
        text = run.report(samples("ours tcp", 1, 2, 3, 4, 5) + samples("ours tcp", 9, probe=100), args)
        self.assertIn("1 of 6 samples were disturbed", text)
        self.assertIn("| 4 KiB | 3000.0 ms |", text)

    def test_bad_arguments_are_refused(self):
        for arguments in ([], ["--bin_dir=b", "--ranks=1"], ["--bin_dir=b", "--rounds=0"], ["--bin_dir=b", "--kib", "0"],
                          ["--bin_dir=b", "--mode=race"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                run.parse(arguments)


if __name__ == "__main__":
    report.main()
