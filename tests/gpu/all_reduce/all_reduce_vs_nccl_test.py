"""all_reduce_vs_nccl on GPUs, or with --config=cuda_emulated, whose figures mean nothing: that it ends, checks, and prints rows."""

import os
import subprocess
import unittest

from tests import report
from tests.gpu import benchmarks

PROGRAM = "tests/gpu/all_reduce/all_reduce_vs_nccl"


def run(*arguments, gpus="2"):
    environment = dict(os.environ, RINGMASTER_EMULATED_CUDA_DEVICES=gpus)
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False, env=environment)


class AllReduceVsNcclTest(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(PROGRAM):
            self.skipTest("built without CUDA")

    def rows(self, *arguments, gpus="2"):
        ended = run(*arguments, gpus=gpus)
        if ended.returncode == 2:
            self.skipTest(ended.stderr)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        return benchmarks.rows_of(ended.stdout.splitlines())

    def test_each_size_is_a_row_with_both_sides(self):
        rows = self.rows("--min_bytes=1024", "--max_bytes=1048576", "--rounds=5")
        self.assertEqual([(row.what, row.unit) for row in rows],
                         [("all-reduce, 1 KiB", "us"), ("all-reduce, 4 KiB", "us"), ("all-reduce, 16 KiB", "us"),
                          ("all-reduce, 64 KiB", "us"), ("all-reduce, 256 KiB", "us"), ("all-reduce, 1 MiB", "GB/s")])
        for row in rows:
            self.assertTrue(row.ours > 0 and row.peer > 0, row)
            self.assertRegex(row.peer_name, r"^NCCL 2\.\d+\.\d+ called directly$")
            self.assertIn("5 rounds in turn, 2 GPUs like cuda:0 (", row.note)

    def test_three_ranks_whose_sums_round(self):
        self.assertEqual(len(self.rows("--gpus=3", "--min_bytes=12", "--max_bytes=12", "--rounds=5", gpus="3")), 1)

    def test_one_gpu_is_not_enough(self):
        for arguments, gpus in (((), "0"), (("--gpus=1",), "2"), (("--gpus=99",), "2")):
            ended = run(*arguments, gpus=gpus)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""), ended.stderr)
            self.assertRegex(ended.stderr, r"\Aerror: it needs \d+ GPUs, and here is \d+\n\Z")

    def test_wrong_flags_are_a_failure(self):
        self.assertEqual(run("--rounds=1").returncode, 1)
        ended = run("--min_bytes=6", "--max_bytes=8")
        self.assertEqual((ended.returncode, ended.stderr), (1, "error: --min_bytes: a multiple of 4 and at most --max_bytes\n"))


if __name__ == "__main__":
    report.main()
