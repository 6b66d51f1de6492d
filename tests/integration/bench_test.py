"""ringctl bench allreduce, with real processes: right results, one clear line for what is wrong, and nobody left behind."""

import json
import os
import select
import signal
import subprocess
import unittest

from tests import report
from tests.integration.cluster import PATIENCE, binary, processes_of_group

USAGE = 2
RETRY = 138
STOPPED = 143

# Minutes of work: these tests end it.
LONG = ["-n", "2", "--sizes", "1M", "--iterations", "100000", "--seconds_per_size", "600s"]


def bench(*args):
    return subprocess.run([binary("ringctl"), "bench", *args], capture_output=True, text=True, timeout=PATIENCE,
                          stdin=subprocess.DEVNULL)


class BenchTest(unittest.TestCase):
    def test_every_result_is_right_and_every_figure_there(self):
        result = bench("allreduce", "-n", "2", "--sizes", "4K:64K", "-o", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        self.assertEqual((found["bench"], found["ranks"], found["type"], found["redop"]), ("allreduce", 2, "float32", "sum"))
        self.assertIn(found["transport"], ("shared_memory", "unix", "tcp"))
        self.assertGreater(found["limit_busbw_gb_per_s"], 0)
        self.assertEqual([size["bytes"] for size in found["sizes"]], [4096, 16384, 65536])
        for size in found["sizes"]:
            self.assertEqual(size["wrong"], 0)
            self.assertEqual(size["count"] * 4, size["bytes"])
            self.assertGreaterEqual(size["iterations"], 3)
            self.assertGreaterEqual(size["p99_us"], size["p50_us"])
            # With two ranks they are the same, and both follow from the time.
            self.assertAlmostEqual(size["busbw_gb_per_s"], size["algbw_gb_per_s"])
            self.assertAlmostEqual(size["algbw_gb_per_s"], size["bytes"] / size["p50_us"] / 1000)
            self.assertGreater(size["percent_of_limit"], 0)
            self.assertNotEqual(size["algorithm"], "auto")

    def test_a_table_without_json(self):
        result = bench("allreduce", "-n", "3", "--sizes=64K", "--transport=tcp", "--algorithm=ring", "--wire=bfloat16")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("all-reduce of 3 processes", result.stdout)
        self.assertIn("transport tcp, algorithm ring", result.stdout)
        row = result.stdout.splitlines()[-1].split()
        self.assertEqual(row[:4], ["65536", "16384", "float32/bfloat16", "sum"])
        self.assertEqual((row[-4], row[-1]), ("0", "ring"))

    def test_wrong_flags_are_one_line(self):
        for args, word in [(["allreduce", "-n", "1"], "--ranks=1"), (["allreduce", "--sizes=lots"], "--sizes"),
                           (["allreduce", "--dtype=int32", "--op=average"], "--op=average"),
                           (["allreduce", "--transport=rdma"], "--transport=rdma"), (["allgather"], "allgather")]:
            with self.subTest(args=args):
                result = bench(*args)
                self.assertEqual(result.returncode, USAGE, result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertIn(word, result.stderr)

    def start_long(self):
        """A bench whose ranks have connected and reduce."""
        process = subprocess.Popen([binary("ringctl"), "bench", "allreduce", *LONG], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, process_group=0)
        self.addCleanup(self.end, process)
        self.assertIn("all-reduce of 2 processes", process.stdout.readline())
        ranks = [pid for pid in processes_of_group(process.pid) if pid != process.pid]
        self.assertEqual(len(ranks), 2)
        return process, ranks

    def end(self, process):
        for pid in processes_of_group(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.communicate()

    def test_a_killed_rank_is_named_and_the_others_end(self):
        process, ranks = self.start_long()
        os.kill(max(ranks), signal.SIGKILL)
        _, error = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, RETRY, error)
        self.assertRegex(error, r"^error: rank [01] was killed by signal 9 \(Killed\)")
        self.assertEqual(processes_of_group(process.pid), [])

    def test_an_interrupt_ends_everybody(self):
        process, _ = self.start_long()
        # As Ctrl-C: to the whole group.
        os.killpg(process.pid, signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, STOPPED, error)
        self.assertEqual(processes_of_group(process.pid), [])

    def test_ranks_end_with_a_ringctl_that_is_killed(self):
        process, ranks = self.start_long()
        ends = [os.pidfd_open(pid) for pid in ranks]
        process.kill()
        for end in ends:
            readable, _, _ = select.select([end], [], [], PATIENCE)
            self.assertEqual(readable, [end])
            os.close(end)


if __name__ == "__main__":
    report.main()
