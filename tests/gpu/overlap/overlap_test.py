"""overlap on a GPU, or with --config=cuda_emulated at toy size, where times are the emulation's: that its rows hold together."""

import os
import subprocess
import unittest

from tests import report
from tests.gpu import benchmarks

PROGRAM = "tests/gpu/overlap/overlap"
TOY = ["--model=gpt-tiny", "--batch=2", "--steps=2", "--rate=0.05", "--bucket_bytes=4096"]


def run(*arguments, **environment):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False, env=dict(os.environ, **environment))


class OverlapTest(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(PROGRAM):
            self.skipTest("built without CUDA")

    def test_exposed_and_all_communication_with_and_without_overlap(self):
        ended = run(*TOY)
        if ended.returncode == 2:
            self.skipTest(ended.stderr)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        rows = {row.what.rpartition(": ")[2]: row for row in benchmarks.rows_of(ended.stdout.splitlines())}
        self.assertEqual(list(rows), ["exposed communication", "all communication", "hidden", "step"])
        self.assertEqual(rows["step"].what, "gpt-tiny, B=2, bf16, ring of 8 over 0.05 GB/s: step")
        exposed, busy, hidden, step = rows.values()
        for row in rows.values():
            self.assertEqual(row.peer_name, "without overlap")
        self.assertTrue(busy.ours > 0 and busy.peer > 0 and exposed.ours >= 0, rows)
        # Without overlap all of it comes after the last bucket is ready, and before the step's end.
        self.assertTrue(busy.peer <= exposed.peer < step.peer, rows)
        self.assertLess(hidden.peer, 1e-6)
        self.assertGreater(step.ours, exposed.ours)
        self.assertRegex(step.note, r"^\d+\.\d+ ms without communication$")
        self.assertIn("5 rounds of 2 steps, cuda:0 (", exposed.note)

    def test_without_a_gpu_it_says_so_in_a_line(self):
        ended = run(RINGMASTER_EMULATED_CUDA_DEVICES="0", CUDA_VISIBLE_DEVICES="")
        self.assertEqual((ended.returncode, ended.stdout), (2, ""), ended.stderr)
        self.assertRegex(ended.stderr, r"\Aerror: [^\n]*\n\Z")

    def test_wrong_flags_are_a_failure(self):
        for arguments in (["--model=resnet"], ["--model=cnn"], ["--rate=0"], ["--ranks=1"]):
            ended = run(*arguments)
            self.assertEqual(ended.returncode, 1, arguments)
            self.assertIn(arguments[0].partition("=")[0], ended.stderr)


if __name__ == "__main__":
    report.main()
