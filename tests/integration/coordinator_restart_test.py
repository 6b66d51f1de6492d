"""The coordinator dies, at any moment, and comes back: training goes on, nothing that was decided is forgotten, no generation comes twice."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
import unittest

from tests import report
from tests.integration.cluster import ENDED, PATIENCE, Cluster, binary, step_of, steps_in, synthetic_job

# Set by tests/run.sh --full: every fail point, instead of a sample.
IS_FULL = bool(os.environ.get("RINGMASTER_FULL_TESTS"))
KILLED = 128 + signal.SIGKILL
DAMAGED = 4
# Long enough for three ranks to be killed, restarted and resumed in, and over in seconds.
STEPS = 3000

# The points at which the coordinator is killed, and at which pass: the run that all cases share reaches every one. The sample is spread over it.
SAMPLE = [
    "journal.sync@1", "coordinator.call.submit@1", "journal.committed@5", "coordinator.send.assignment@2", "coordinator.receive.prepared@3",
    "coordinator.send.halt@1", "journal.commit@7", "coordinator.receive.finished@1",
]
OTHERS = [
    "journal.open@1", "journal.open@2", "journal.sync_directory@1", "journal.begin@1", "journal.begin@2", "journal.begin@4", "journal.begin@6",
    "journal.begin@8", "journal.compact@1", "journal.append@1", "journal.append@2", "journal.append@3", "journal.append@4", "journal.append@5",
    "journal.write@1", "journal.write@5", "journal.write@15", "journal.write@21", "journal.sync@2", "journal.sync@4", "journal.sync@6",
    "journal.commit@1", "journal.commit@2", "journal.commit@3", "journal.commit@4", "journal.commit@5", "journal.commit@6",
    "journal.committed@1", "journal.committed@2", "journal.committed@3", "journal.committed@4", "journal.committed@6", "journal.committed@7",
    "coordinator.receive.hello@1", "coordinator.receive.hello@3", "coordinator.receive.beat@1", "coordinator.receive.beat@20",
    "coordinator.receive.prepared@1", "coordinator.receive.prepared@4", "coordinator.receive.halted@1", "coordinator.receive.halted@2",
    "coordinator.receive.finished@2", "coordinator.receive.trace@1", "coordinator.send.welcome@1", "coordinator.send.welcome@3",
    "coordinator.send.assignment@1", "coordinator.send.assignment@3", "coordinator.send.assignment@5", "coordinator.send.start@1",
    "coordinator.send.start@3", "coordinator.send.start@5", "coordinator.send.halt@2", "coordinator.send.release@1",
    "coordinator.send.trace_request@1", "coordinator.call.cancel@1", "coordinator.call.trace@1", "watch.send@1", "watch.send@3",
]


class RestartingCluster(Cluster):
    """A coordinator with fail points, and, whenever it has died, another one without any on its state and port."""

    def __init__(self, fail_points="", budget="10s"):
        """`budget`: generous, since a loaded machine is no fault; less where a worker is lost while nobody looks."""
        super().__init__()
        self.fail_points = fail_points
        self.budget = budget
        self.coordinator = None
        self.deaths = []
        self.state = self.directory / "state"

    def spawn(self, name, argv, host=None, env=None):
        if name == "coordinator" and self.fail_points:
            env = {"RINGMASTER_FAIL_POINTS": self.fail_points}
        process = super().spawn(name, argv, host, env)
        if name == "coordinator":
            self.coordinator = process
        return process

    def tend(self):
        """Starts the coordinator, if none lives."""
        while self.coordinator is None or self.coordinator.popen.poll() is not None:
            if self.coordinator is not None:
                self.deaths.append(self.coordinator.wait())
                self.fail_points = ""
            try:
                self.start_coordinator(listen=self.address, state_dir=self.state, budget=self.budget)
            except AssertionError:
                if self.coordinator.popen.poll() != -signal.SIGKILL:
                    raise

    def call(self, *args, timeout=PATIENCE):
        """A call of ringctl that is made again, as a user would, while the coordinator is away."""
        deadline = time.monotonic() + timeout
        while True:
            self.tend()
            result = self.ringctl(*args)
            if result.returncode == 0:
                return result
            if time.monotonic() > deadline:
                raise AssertionError(f"ringctl {args} exited with {result.returncode}: {result.stderr}")
            time.sleep(0.05)

    def query(self, *args):
        return json.loads(self.call("-o", "json", *args).stdout)

    def kill_coordinator(self):
        self.coordinator.signal(signal.SIGKILL)
        self.deaths.append(self.coordinator.wait())

    def generations(self):
        """All generations that the journal has, in order."""
        with sqlite3.connect(f"file:{self.state / 'journal.sqlite3'}?mode=ro", uri=True) as database:
            rows = database.execute("SELECT generation FROM decisions WHERE type = 'generation_formed' ORDER BY sequence")
            return [row[0] for row in rows]


def job_text(name="job", steps=STEPS, workers_min=1, workers_max=3, **train):
    """A step takes a millisecond or two, so that there is time to break something. Settles late: all workers that are there take part."""
    text = synthetic_job(name, steps, workers_min, workers_max, **{"global_batch": 2048, **train})
    return text.replace("settle: 300ms", "settle: 20s")


class CoordinatorRestartTest(unittest.TestCase):
    def assert_generations_rise(self, cluster):
        generations = cluster.generations()
        self.assertEqual(generations, sorted(set(generations)))

    def test_a_running_job_goes_on_without_it_and_is_found_again(self):
        with RestartingCluster() as cluster:
            cluster.tend()
            worker = cluster.start_worker("a", slots=2)
            steps = 3000
            checkpoints = cluster.directory / "checkpoints"
            metrics = checkpoints / "metrics.jsonl"
            job_id = cluster.submit(job_text(steps=steps, workers_min=2, workers_max=2, hash_every=1,
                                             checkpoint=f"{{directory: {checkpoints}}}"))
            watch = cluster.spawn("watch", [binary("ringctl"), f"--coordinator={cluster.address}", "watch", job_id])
            cluster.await_step(job_id, 50)
            cluster.await_output(watch, "step")
            before = cluster.job(job_id)
            cluster.kill_coordinator()
            made = len(steps_in(metrics))
            deadline = time.monotonic() + PATIENCE
            while len(steps_in(metrics)) < made + 100:
                self.assertLess(time.monotonic(), deadline, "no steps without the coordinator")
                time.sleep(0.02)
            cluster.tend()
            cluster.await_event(job_id, "job.reattached")
            job = cluster.await_job(job_id, "SUCCEEDED")
            # The same processes in the same generation, and every step once.
            self.assertEqual(job["generation"], before["generation"])
            self.assertEqual([member["pid"] for member in job["members"]], [member["pid"] for member in before["members"]])
            self.assertEqual(steps_in(metrics), list(range(1, steps + 1)))
            self.assertNotIn("worker.ended", worker.output())
            self.assertEqual(watch.wait(), 0)
            self.assert_generations_rise(cluster)

    def test_it_is_killed_at_any_point_of_a_life(self):
        for point in SAMPLE + OTHERS if IS_FULL else SAMPLE:
            with self.subTest(point), RestartingCluster(f"{point.replace('@', '=crash@')}", "4s") as cluster:
                self.live(cluster)
                self.assertEqual(cluster.deaths, [KILLED], "the point was not reached")

    def live(self, cluster):
        """A job is submitted, watched and traced, runs, loses a worker and ends; another one is cancelled in the queue."""
        cluster.tend()
        workers = [cluster.start_worker(name) for name in "abc"]
        cluster.await_workers(3)
        first = cluster.directory / "first.yaml"
        first.write_text(job_text(hash_every=1))
        job_id = cluster.query("submit", "--request_id=first", str(first))["id"]
        watch = cluster.spawn("watch", [binary("ringctl"), f"--coordinator={cluster.address}", "watch", job_id])
        second = cluster.directory / "second.yaml"
        # More than the first one can spare, so it stays in the queue.
        second.write_text(job_text("second", workers_min=3))
        other_id = cluster.query("submit", "--request_id=second", str(second))["id"]
        self.cancel(cluster, other_id)
        cluster.await_step(job_id, 30)
        cluster.call("trace", f"--file={cluster.directory / 'trace.json'}", job_id)
        self.assertNotIn(cluster.job(job_id)["state"], ENDED, "the job is too short for what has to happen in it")
        workers[2].signal(signal.SIGKILL)
        job = cluster.await_job(job_id, "SUCCEEDED")
        self.assertEqual(int(job["figures"]["step"]), STEPS)
        self.assertTrue(job["parameters_hash"])
        cluster.await_job(other_id, "CANCELLED")
        cluster.tend()
        if watch.wait() != 0:
            # It gives up only if its first connection fails.
            self.assertNotIn("step", watch.output())
        self.assert_generations_rise(cluster)
        self.assertEqual([worker.popen.poll() for worker in workers], [None, None, -signal.SIGKILL])

    def cancel(self, cluster, job_id):
        """Repeats it until it has worked: perhaps only the answer was lost."""
        def is_cancelled():
            cluster.tend()
            cluster.ringctl("cancel", job_id)
            return cluster.job(job_id)["state"] == "JOB_STATE_CANCELLED"
        cluster.await_that(f"{job_id} cancelled", is_cancelled)

    def test_an_older_copy_of_its_state_makes_no_generation_twice(self):
        with RestartingCluster() as cluster:
            cluster.tend()
            cluster.start_worker("a", slots=2)
            cluster.await_workers(2)
            # The copy has no generation; then three are formed.
            copy = cluster.directory / "copy"
            cluster.kill_coordinator()
            shutil.copytree(cluster.state, copy)
            for name in ("one", "two"):
                cluster.run_job(job_text(name, steps=10, workers_max=2))
            job_id = cluster.submit(job_text("three", steps=1_000_000, workers_min=2, workers_max=2))
            cluster.await_step(job_id, 20)
            seen = int(cluster.job(job_id)["generation"])
            cluster.kill_coordinator()
            cluster.state = copy
            cluster.tend()
            cluster.await_workers(2)
            cluster.await_that("the generation that the workers tell of",
                               lambda: int(cluster.query("status")["coordinator"].get("last_generation", 0)) >= seen)
            for job in cluster.query("status").get("jobs", []):
                self.cancel(cluster, job["id"])
            job = cluster.run_job(job_text("after", steps=10, workers_max=2))
            self.assertGreater(int(job["generation"]), seen)

    def test_a_lost_state_is_told_by_the_workers(self):
        with RestartingCluster() as cluster:
            cluster.tend()
            worker = cluster.start_worker("a", slots=2)
            job_id = cluster.submit(job_text(steps=1_000_000, workers_min=2, workers_max=2, hash_every=1))
            cluster.await_step(job_id, 50)
            before = cluster.job(job_id)
            cluster.kill_coordinator()
            shutil.rmtree(cluster.state)
            cluster.tend()
            job = cluster.await_that("the job that the workers tell of", lambda: self.that_trains(cluster, job_id, before))
            cluster.await_event(job_id, "job.rebuilt")
            self.assertEqual(job["generation"], before["generation"])
            self.assertEqual([member["pid"] for member in job["members"]], [member["pid"] for member in before["members"]])
            self.assertNotIn("worker.ended", worker.output())
            # It is in the journal again: the next process of the coordinator knows it, and all that follows.
            cluster.kill_coordinator()
            cluster.tend()
            cluster.await_event(job_id, "job.reattached")
            self.cancel(cluster, job_id)
            self.assert_generations_rise(cluster)

    def test_a_lost_state_and_a_lost_worker_cost_no_step(self):
        with RestartingCluster(budget="4s") as cluster:
            cluster.tend()
            lost = cluster.start_worker("a")
            cluster.start_worker("b")
            job_id = cluster.submit(job_text(steps=1_000_000, workers_min=1, workers_max=2, hash_every=1))
            cluster.await_step(job_id, 50)
            before = cluster.job(job_id)
            cluster.kill_coordinator()
            lost.signal(signal.SIGKILL)
            shutil.rmtree(cluster.state)
            cluster.tend()
            job = cluster.await_that("the job of the worker that is left", lambda: self.that_trains(cluster, job_id, before))
            self.assertGreater(int(job["generation"]), int(before["generation"]))
            self.assertEqual([member["worker"] for member in job["members"]], ["b"])
            self.cancel(cluster, job_id)

    @staticmethod
    def that_trains(cluster, job_id, before):
        """The job once it has got on since it was as in `before`."""
        for job in cluster.query("status").get("jobs", []):
            if (job["id"] == job_id and job["state"] == "JOB_STATE_RUNNING"
                    and step_of(job) > step_of(before)):
                return cluster.job(job_id)
        return None

    def test_a_bit_that_flipped_is_told_and_nothing_dropped(self):
        with RestartingCluster() as cluster:
            cluster.tend()
            ids = [cluster.submit(job_text(f"job-{i}", workers_min=9, workers_max=9)) for i in range(4)]
            cluster.kill_coordinator()
            log = cluster.state / "journal.sqlite3-wal"
            good = log.read_bytes()
            for at in (len(good) // 3, len(good) - 100, 20):
                with self.subTest(byte=at):
                    log.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
                    flags = [f"--state_dir={cluster.state}", "--listen=127.0.0.1:0"]
                    start = subprocess.run([binary("coordinator"), *flags], capture_output=True, text=True, timeout=PATIENCE)
                    self.assertEqual(start.returncode, DAMAGED, start.stderr)
                    error = start.stderr.splitlines()[-1]
                    place = "header" if at == 20 else "frame [0-9]+, at byte [0-9]+"
                    self.assertRegex(error, f"^error: journal {cluster.state}/journal.sqlite3 is damaged: {log}: .*{place}")
                    dump = subprocess.run([binary("coordinator"), "--dump_journal", flags[0]], capture_output=True, text=True, timeout=PATIENCE)
                    self.assertEqual((dump.returncode, dump.stderr.splitlines()[-1]), (DAMAGED, error))
            # Neither has touched it.
            log.write_bytes(good)
            cluster.tend()
            self.assertEqual(sorted(job["id"] for job in cluster.query("status")["jobs"]), ids)

    def test_a_disk_that_hangs_stops_decisions_and_no_steps(self):
        # The first three records are the job, its generation, and who asked for it.
        with RestartingCluster("journal.append=hang@4") as cluster:
            cluster.tend()
            cluster.start_worker("a", slots=2)
            job_id = cluster.submit(job_text(steps=1_000_000, workers_min=1, workers_max=2))
            cluster.await_step(job_id, 20)
            path = cluster.directory / "next.yaml"
            path.write_text(job_text("next"))
            submit = cluster.spawn("submit", [binary("ringctl"), f"--coordinator={cluster.address}", "submit", str(path)])
            cluster.await_step(job_id, int(cluster.job(job_id)["figures"]["step"]) + 300)
            self.assertEqual(cluster.job(job_id)["state"], "JOB_STATE_RUNNING")
            # It waits, or has given up waiting.
            self.assertNotEqual(submit.popen.poll(), 0, "a job was taken on that is not durable")
            # Once the disk is back (here: for another coordinator), the job that was never confirmed is not there.
            cluster.kill_coordinator()
            cluster.tend()
            self.assertEqual([job["id"] for job in cluster.query("status")["jobs"]], [job_id])
            self.cancel(cluster, job_id)


if __name__ == "__main__":
    report.main()
