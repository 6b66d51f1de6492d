"""ringctl bench allreduce between the workers of a coordinator: right results, faults on the way, one clear line for the rest."""

import json
import os
import signal
import unittest

from tests import report
from tests.integration.cluster import Cluster, Hosts, binary, namespaces_unavailable, pids_of

USAGE = 2
STOPPED = 143

# Minutes of work: these tests end it.
LONG = ["--sizes=1M", "--iterations=100000", "--seconds_per_size=600s"]


class ClusterBenchTest(unittest.TestCase):
    def cluster(self, workers, **flags):
        cluster = Cluster()
        cluster.__enter__()
        self.addCleanup(cluster.__exit__, None, None, None)
        cluster.start_coordinator()
        processes = {name: cluster.start_worker(name, **flags.get(name, {})) for name in workers}
        cluster.await_workers(len(workers))
        return cluster, processes

    def start_bench(self, cluster, *args):
        """ringctl in the background, with its output in a file."""
        return cluster.spawn("ringctl-bench", [binary("ringctl"), f"--coordinator={cluster.address}", "bench", "allreduce", *args])

    def await_running(self, cluster):
        return cluster.await_that("a benchmark that runs", lambda: next(
            (job for job in cluster.query("status").get("jobs", [])
             if job["state"] == "JOB_STATE_RUNNING" and job.get("bench", {}).get("limit_bytes_per_second")), None))

    def test_workers_measure_every_size(self):
        cluster, _ = self.cluster("abc")
        result = cluster.ringctl("bench", "allreduce", "-n", "3", "--sizes=4K:64K", "-o", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        self.assertEqual((found["bench"], found["ranks"], found["type"], found["redop"]), ("allreduce", 3, "float32", "sum"))
        self.assertEqual([size["bytes"] for size in found["sizes"]], [4096, 16384, 65536])
        for size in found["sizes"]:
            self.assertEqual(size["wrong"], 0)
            self.assertEqual(size["count"] * 4, size["bytes"])
            self.assertGreaterEqual(size["p99_us"], size["p50_us"])
            self.assertGreater(size["percent_of_limit"], 0)
            self.assertNotEqual(size["algorithm"], "auto")
        job = cluster.job(found["job"])
        self.assertEqual(job["state"], "JOB_STATE_SUCCEEDED")
        self.assertEqual(len(job["bench"]["rows"]), 3)
        shown = cluster.ringctl("job", found["job"]).stdout
        self.assertIn("program:  bench, all-reduce of 3 sizes, 4096 to 65536 bytes, float32, sum", shown)
        self.assertIn("3 of 3 sizes", shown)
        self.assertNotIn("loss", shown)

    def test_a_table_with_flags_and_figures_that_survive_a_restart(self):
        cluster, _ = self.cluster("ab")
        result = cluster.ringctl("bench", "allreduce", "--sizes=64K", "--transport=tcp", "--algorithm=ring",
                                 "--wire=bfloat16", "--op=max")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("all-reduce of 2 workers", result.stdout)
        self.assertIn("transport tcp, algorithm ring", result.stdout)
        row = result.stdout.splitlines()[-1].split()
        self.assertEqual(row[:4], ["65536", "16384", "float32/bfloat16", "max"])
        self.assertEqual((row[-4], row[-1]), ("0", "ring"))
        job = cluster.query("status")["jobs"][0]
        cluster.processes[0].kill_group()
        cluster.start_coordinator(listen=cluster.address)
        self.assertEqual(cluster.job(job["id"])["bench"], job["bench"])

    def test_a_killed_worker_is_named_and_its_successor_measured_anew(self):
        cluster, workers = self.cluster("abc")
        bench = self.start_bench(cluster, "-n", "3", "--sizes=1M", "--iterations=2000", "--seconds_per_size=10s")
        job = self.await_running(cluster)
        os.kill(pids_of(job)["b"], signal.SIGKILL)
        cluster.await_output(bench, "incident: ")
        cluster.await_output(bench, "waits for workers: 2 of at least 3")
        cluster.start_worker("d")
        self.assertEqual(bench.wait(), 0, bench.output())
        self.assertIn("worker b", bench.output())
        job = cluster.job(job["id"])
        self.assertEqual(job["state"], "JOB_STATE_SUCCEEDED")
        self.assertEqual([int(row.get("wrong", 0)) for row in job["bench"]["rows"]], [0])
        self.assertEqual(sorted(pids_of(job)), ["a", "c", "d"])
        self.assertEqual(workers["b"].wait(), 128 + signal.SIGKILL)

    @unittest.skipIf(namespaces_unavailable(), namespaces_unavailable())
    def test_between_hosts_the_limit_is_that_of_the_link(self):
        with Hosts(2) as hosts, Cluster() as cluster:
            cluster.start_coordinator(host=hosts[0])
            for index, host in enumerate(hosts):
                cluster.start_worker(f"w{index}", slots=2, host=host)
            cluster.await_workers(4)
            result = cluster.ringctl("bench", "allreduce", "-n", "4", "--sizes=64K:1M", "-o", "json")
            self.assertEqual(result.returncode, 0, result.stderr)
            found = json.loads(result.stdout)
            self.assertEqual((found["transport"], [size["wrong"] for size in found["sizes"]]), ("tcp", [0, 0, 0]))
            self.assertGreater(found["limit_busbw_gb_per_s"], 0)

    def test_an_interrupt_cancels_the_job(self):
        cluster, _ = self.cluster("ab")
        bench = self.start_bench(cluster, "-n", "2", *LONG)
        job = self.await_running(cluster)
        bench.signal(signal.SIGINT)
        self.assertEqual(bench.wait(), STOPPED, bench.output())
        self.assertIn("was cancelled", bench.output())
        self.assertEqual(cluster.job(job["id"])["state"], "JOB_STATE_CANCELLED")
        cluster.await_that("workers that are idle again", lambda: all(
            worker["state"] == "WORKER_STATE_IDLE" for worker in cluster.workers()))

    def test_more_workers_than_there_are_are_waited_for(self):
        cluster, _ = self.cluster("a")
        bench = self.start_bench(cluster, "-n", "2", "--sizes=4K")
        cluster.await_output(bench, "waits for workers")
        cluster.start_worker("b")
        self.assertEqual(bench.wait(), 0, bench.output())

    def test_wrong_elements_end_in_a_verdict(self):
        cluster, _ = self.cluster("ab", b={"env": {"RINGMASTER_FAIL_POINTS": "bench.reduced=error"}})
        result = cluster.ringctl("bench", "allreduce", "-n", "2", "--sizes=4K:16K")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("elements differ from the expected result", result.stderr.splitlines()[-1])
        self.assertIn("worker b", result.stderr.splitlines()[-1])
        rows = [line.split() for line in result.stdout.splitlines() if not line.startswith("#")]
        self.assertEqual([row[0] for row in rows], ["4096", "16384"])
        for row in rows:
            self.assertGreater(int(row[-4]), 0)

    def test_wrong_flags_are_one_line(self):
        cluster, _ = self.cluster("a")
        for args, word in [(["-n", "1"], "--ranks=1"), (["--sizes=lots", "-n", "2"], "--sizes"),
                           (["--sizes=1G:4G", "-n", "2"], "--sizes=1G:4G"), ([], "--ranks"),
                           (["-n", "2", "--dtype=int32", "--op=average"], "--op=average"),
                           (["-n", "2", "--dtype=int32", "--wire=float16"], "--wire")]:
            with self.subTest(args=args):
                result = cluster.ringctl("bench", "allreduce", *args)
                self.assertEqual(result.returncode, USAGE, result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertIn(word, result.stderr)
        self.assertEqual(cluster.query("status").get("jobs", []), [])

    def test_a_job_file_can_ask_for_it(self):
        cluster, _ = self.cluster("ab")
        job = cluster.run_job("name: pairs\nworkers: {min: 2}\nbench: {sizes: [4096, 65536], type: float64, iterations: 3}\n")
        self.assertEqual([int(row["count"]) for row in job["bench"]["rows"]], [512, 8192])


if __name__ == "__main__":
    report.main()
