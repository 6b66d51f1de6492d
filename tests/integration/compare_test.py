"""ringctl compare with real processes: its output, and the end of runs that fail or are interrupted."""

import json
import pathlib
import signal
import subprocess
import time
import unittest

from tests import report
from tests.integration.cluster import PATIENCE, Cluster, binary, synthetic_job


class CompareTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        self.out = self.cluster.directory / "out"

    def job(self, **train):
        path = self.cluster.directory / "job.yaml"
        path.write_text(synthetic_job(workers_min=1, workers_max=1, **train))
        return path

    def command(self, job, *more, repeats=1):
        """`ringctl compare` of `job`, as a list."""
        return [binary("ringctl"), "compare", str(job), f"--out={self.out}", f"--bin_dir={self.cluster.bin_dir()}",
                f"--repeats={repeats}", *more]

    def compare(self, job, *more, repeats=1):
        return subprocess.run(self.command(job, *more, repeats=repeats), capture_output=True, text=True, timeout=2 * PATIENCE,
                              stdin=subprocess.DEVNULL)

    def comparison(self):
        return json.loads((self.out / "comparison.json").read_text())

    def test_bytes_of_ring_and_root_are_those_of_theory(self):
        job = self.job(steps=60, evaluate_every=20)
        result = self.compare(job, "--modes=ring,gather_broadcast", "--workers=2,3", "--device_memory=1GiB")
        self.assertEqual(result.returncode, 0, result.stderr)
        comparison = self.comparison()
        runs = comparison["runs"]
        self.assertEqual([(run["mode"], run["workers"]) for run in runs],
                         [("ring", 2), ("gather_broadcast", 2), ("ring", 3), ("gather_broadcast", 3)])
        for run, combination in zip(runs, comparison["combinations"], strict=True):
            self.assertEqual((run["mode"], run["workers"]), (combination["mode"], combination["workers"]))
            busiest = max(rank["sent_bytes"] for rank in run["ranks"])
            theory = combination["theory"]["busiest_sent_bytes"]
            # The records that end a step are sent too.
            self.assertAlmostEqual(busiest, theory, delta=0.02 * theory + 1000)
            parts = sum(run[part + "_seconds"] for part in ("compute", "transfer", "waiting", "other"))
            self.assertAlmostEqual(parts, run["step_seconds"], delta=0.05 * run["step_seconds"])
            self.assertTrue(run["losses"])
            for rank in run["ranks"]:
                self.assertGreater(rank["peak_resident_bytes"], 1e6)
                self.assertGreater(rank["cpu_seconds"], 0)
        # It has the most workers, and no process of earlier runs.
        self.assertEqual([(memory["mode"], memory["workers"], memory["failure"]) for memory in comparison["memory"]],
                         [("ring", 3, ""), ("gather_broadcast", 3, "")], result.stderr)
        for memory in comparison["memory"]:
            # As many as buffers are reserved for, with one target each.
            self.assertEqual(memory["samples_per_worker"], 64)
            self.assertEqual(memory["more_samples_per_worker"], 4 * memory["samples_per_worker"])
            self.assertEqual(len(memory["ranks"]), 3)
            for rank in memory["ranks"]:
                self.assertGreater(rank["peak_resident_bytes"], 1e6)
                self.assertLessEqual(rank["fixed_bytes"], rank["peak_resident_bytes"])
        html = (self.out / "report.html").read_text()
        for words in ("Ring or parameter server", "gather_broadcast", "<svg", "--modes=ring,gather_broadcast", "<b>derived</b>"):
            self.assertIn(words, html)
        for foreign in ("<script", "src=", "href="):
            self.assertNotIn(foreign, html)

    def test_repeats_are_made_in_turns_and_have_a_spread(self):
        result = self.compare(self.job(steps=40), "--modes=ring,gather_broadcast", "--workers=2", "--emulate_compute", "-o", "json",
                              repeats=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        comparison = self.comparison()
        self.assertEqual(json.loads(result.stdout), comparison)
        self.assertEqual([(run["turn"], run["mode"]) for run in comparison["runs"]],
                         [(1, "ring"), (1, "gather_broadcast"), (2, "ring"), (2, "gather_broadcast")])
        for combination in comparison["combinations"]:
            seconds = [run["step_seconds"] for run in comparison["runs"] if run["mode"] == combination["mode"]]
            self.assertEqual(combination["succeeded"], 2)
            self.assertEqual((combination["step_seconds"]["least"], combination["step_seconds"]["most"]), (min(seconds), max(seconds)))
            self.assertAlmostEqual(combination["step_seconds"]["median"], sum(seconds) / 2)
        # Shared memory's rate is not that of a network.
        self.assertFalse((self.out / "scale.svg").exists())
        self.assertIn("2 of each run, in turns", (self.out / "report.html").read_text())

    def test_a_parameter_server_and_computing_that_is_emulated(self):
        # Long enough for some beats of the server, whose figures come with them.
        job = self.job(steps=4000)
        result = self.compare(job, "--modes=ps:1", "--workers=2", "--emulate_compute")
        self.assertEqual(result.returncode, 0, result.stderr)
        run, = self.comparison()["runs"]
        theory = self.comparison()["combinations"][0]["theory"]
        self.assertTrue(run["compute_is_emulated"])
        self.assertEqual(run["final_loss"], 0)
        self.assertEqual([rank["role"] for rank in run["ranks"]], ["worker", "worker", "parameter_server"])
        self.assertGreater(run["ranks"][0]["backward_seconds"], 0)
        self.assertAlmostEqual(run["ranks"][0]["sent_bytes"], theory["worker_sent_bytes"],
                               delta=0.05 * theory["worker_sent_bytes"] + 2000)
        # Its beats do not come together with the workers': it is measured by steps of its own.
        server = run["ranks"][2]
        self.assertGreater(server["steps"], 0)
        self.assertAlmostEqual(server["sent_bytes"], theory["busiest_sent_bytes"],
                               delta=0.1 * theory["busiest_sent_bytes"] + 2000)
        self.assertIn("Runs marked * do not compute", (self.out / "report.html").read_text())

    def test_a_run_that_fails_is_told_and_the_others_go_on(self):
        job = self.job(steps=20)
        result = self.compare(job, "--modes=ring", "--workers=2", "--vary=no data:train.data.text.path=/nowhere")
        self.assertNotEqual(result.returncode, 0)
        runs = self.comparison()["runs"]
        self.assertEqual([run["failure"] == "" for run in runs], [True, False], result.stderr)
        self.assertIn("/nowhere", runs[1]["failure"])
        self.assertIn("failed:", (self.out / "report.html").read_text())

    def test_an_interrupt_leaves_the_report_of_what_has_run(self):
        job = self.job(steps=50)
        command = self.command(job, "--modes=ring", "--workers=2", "--vary=endless:train.steps=1000000")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        log = self.out / "logs" / "2-ring-x2" / "worker-0.log"
        while time.monotonic() < deadline and not (log.exists() and "mesh" in log.read_text()):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 143, err)
        self.assertIn("report.html", out)
        comparison = self.comparison()
        self.assertEqual([run["variant"] for run in comparison["runs"]], [""])
        self.assertTrue(comparison["conditions"]["is_cut_short"])
        self.assertIn("Interrupted: 1 of 2 runs", (self.out / "report.html").read_text())

    def worker_that_in_memory_runs(self, command):
        """Places the programs so that a worker runs as usual, except for `command` in the runs that measure memory."""
        worker = pathlib.Path(self.cluster.bin_dir()) / "worker"
        real = worker.readlink()
        worker.unlink()
        worker.write_text(f'#!/bin/sh\n[ -e "{self.out}/logs/memory-ring-few" ] && {command}\nexec "{real}" "$@"\n')
        worker.chmod(0o755)

    def test_a_memory_run_that_fails_is_told_and_sets_the_exit_code(self):
        self.worker_that_in_memory_runs("exit 7")
        result = self.compare(self.job(steps=20), "--modes=ring", "--workers=2", "--device_memory=1GiB")
        self.assertNotEqual(result.returncode, 0, result.stderr)
        self.assertIn("memory of ring x2: error: ", result.stderr)
        comparison = self.comparison()
        self.assertEqual([run["failure"] for run in comparison["runs"]], [""])
        self.assertNotEqual(comparison["memory"][0]["failure"], "")
        self.assertFalse(comparison["conditions"]["is_cut_short"])

    def test_an_interrupt_while_memory_is_measured(self):
        self.worker_that_in_memory_runs("exec sleep 1000")
        command = self.command(self.job(steps=20), "--modes=ring", "--workers=2", "--device_memory=1GiB")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not (self.out / "logs" / "memory-ring-few").exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 143, err)
        html = (self.out / "report.html").read_text()
        self.assertIn("Interrupted: memory was measured of 0 of 1 modes.", html)
        self.assertNotIn("runs were made", html)

    def test_a_cluster_of_ones_own_can_be_compared_on(self):
        self.cluster.start_coordinator()
        self.cluster.start_worker("a", slots=2)
        job = self.job(steps=40)
        self.cluster.await_workers(2)
        there = f"--coordinator={self.cluster.address}"
        result = self.compare(job, "--modes=ring", "--workers=2", there)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("the cluster at", self.comparison()["conditions"]["place"])
        result = self.compare(job, "--modes=ring", "--workers=2,3", there)
        self.assertEqual(result.returncode, 2)
        self.assertIn("the cluster has 2 idle workers, too few for 3", result.stderr)


if __name__ == "__main__":
    report.main()
