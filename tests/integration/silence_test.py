"""Nobody is heard for a while, though every process lives: the job goes on with its state, or waits for it."""

import os
import signal
import subprocess
import time
import unittest

from tests import report
from tests.integration.cluster import Cluster, Hosts, namespaces_unavailable, pids_of, step_of, synthetic_job

ENDLESS = 10_000_000
RETRY_ELSEWHERE = 138


class SilenceTest(unittest.TestCase):
    def train(self, cluster, workers_min=2, workers=4, **train):
        cluster.await_workers(workers)
        job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=workers_min, workers_max=workers, hash_every=1, **train))
        cluster.await_step(job_id, 20)
        return job_id

    def check_goes_on(self, cluster, job_id, before):
        """The same processes make further steps, none goes back."""
        cluster.await_step(job_id, step_of(before) + 50)
        self.assertEqual(pids_of(cluster.job(job_id)), pids_of(before))
        self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])

    def test_all_workers_are_frozen(self):
        with Cluster() as cluster:
            cluster.start_coordinator(budget="1s")
            workers = [cluster.start_worker(name) for name in "abcd"]
            job_id = self.train(cluster)
            before = cluster.job(job_id)
            for worker in workers:
                worker.signal(signal.SIGSTOP)
            cluster.await_event(job_id, "coordinator.hears_nobody")
            time.sleep(2)  # of silence: several leases
            for worker in workers:
                worker.signal(signal.SIGCONT)
            self.check_goes_on(cluster, job_id, before)
            cluster.cancel(job_id)

    def test_the_coordinator_is_frozen_for_longer_than_streams_last(self):
        with Cluster() as cluster:
            coordinator = cluster.start_coordinator(budget="2s")
            for name in "abcd":
                cluster.start_worker(name)
            job_id = self.train(cluster)
            before = cluster.job(job_id)
            coordinator.signal(signal.SIGSTOP)
            time.sleep(18)  # keep-alive ends the workers' streams after 15
            coordinator.signal(signal.SIGCONT)
            self.check_goes_on(cluster, job_id, before)
            self.assertEqual(cluster.events(job_id, "worker.lost"), [])
            cluster.cancel(job_id)

    def test_the_coordinators_own_link_is_down(self):
        if namespaces_unavailable():
            self.skipTest(namespaces_unavailable())
        with Hosts(2) as (head, host), Cluster() as cluster:
            cluster.start_coordinator(host=head, budget="1s")
            for name in "abcd":
                cluster.start_worker(name, host=host)
            job_id = self.train(cluster)
            before = cluster.job(job_id)
            link = lambda state: subprocess.run(["ip", "-n", head.name, "link", "set", "eth0", state], check=True)
            link("down")
            time.sleep(2)
            link("up")
            self.check_goes_on(cluster, job_id, before)
            self.assertEqual(cluster.events(job_id, "worker.lost"), [])
            cluster.cancel(job_id)

    def test_a_job_waits_for_the_only_holder_until_it_is_back(self):
        with Cluster() as cluster:
            cluster.start_coordinator(budget="1s")
            holder = cluster.start_worker("holder")
            job_id = self.train(cluster, workers_min=1, workers=1)
            cluster.start_worker("spare")
            before = cluster.job(job_id)
            holder.signal(signal.SIGSTOP)
            waits = cluster.await_that("the wait", lambda: self.waiting(cluster, job_id))
            self.assertRegex(waits["message"], r"^waits until \d\d:\d\d:\d\d UTC for worker holder \(rank 0\), which held step \d+")
            explained = cluster.ringctl("explain", job_id).stdout
            self.assertIn("one of them that comes back", explained)
            holder.signal(signal.SIGCONT)
            after = cluster.await_that("a new generation", lambda: self.running(cluster, job_id, before))
            self.assertIn("holder", pids_of(after))
            cluster.await_step(job_id, step_of(before) + 50)
            self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])
            self.assertTrue(cluster.events(job_id, "worker.returned"))
            cluster.cancel(job_id)

    def test_a_wait_ends_with_its_time_or_a_cancel(self):
        with Cluster() as cluster:
            cluster.start_coordinator("--state_wait=2s", budget="1s")
            for name in "ab":
                cluster.start_worker(name)
            job_id = self.train(cluster, workers=2)
            for _ in range(2):
                before = cluster.job(job_id)
                for pid in pids_of(before).values():
                    os.kill(pid, signal.SIGKILL)
                cluster.await_that("the wait", lambda: self.waiting(cluster, job_id))
                # Nobody takes the names of the dead.
                for name in "cd":
                    cluster.start_worker(f"{name}{before['generation']}")
                rolled_back = cluster.await_event(job_id, "job.rolled_back")
                self.assertRegex(rolled_back[-1]["message"], r"of the \d+ steps that its members held, \d+ are lost")
                cluster.await_that("a new generation", lambda: self.running(cluster, job_id, before))
                cluster.await_step(job_id, 1)
            for pid in pids_of(cluster.job(job_id)).values():
                os.kill(pid, signal.SIGKILL)
            cluster.await_that("the wait", lambda: self.waiting(cluster, job_id))
            cluster.cancel(job_id)

    def test_who_is_known_to_have_ended_is_not_waited_for(self):
        with Cluster() as cluster:
            cluster.start_coordinator(budget="1s")
            for name in "ab":
                cluster.start_worker(name, restart="always")
            job_id = self.train(cluster, workers=2)
            before = cluster.job(job_id)
            for pid in pids_of(before).values():
                os.kill(pid, signal.SIGKILL)
            cluster.await_event(job_id, "job.rolled_back")
            cluster.await_that("a new generation", lambda: self.running(cluster, job_id, before))
            cluster.cancel(job_id)

    def test_workers_outlast_the_coordinators_absence_and_leave_a_checkpoint(self):
        with Cluster() as cluster:
            coordinator = cluster.start_coordinator("--state_wait=4s")
            workers = [cluster.start_worker(name, "--coordinator_timeout=500ms") for name in "ab"]
            directory = cluster.directory / "checkpoints"
            job_id = self.train(cluster, workers=2, checkpoint=f"{{directory: {directory}, every_steps: 1000000}}")
            self.assertEqual(list(directory.glob("step-*")), [])
            coordinator.signal(signal.SIGKILL)
            begin = time.monotonic()
            for worker in workers:
                self.assertEqual(worker.wait(), RETRY_ELSEWHERE, worker.output())
            self.assertGreater(time.monotonic() - begin, 3.5)
            self.assertEqual(len(list(directory.glob("step-*"))), 1, list(directory.iterdir()))

    @staticmethod
    def waiting(cluster, job_id):
        job = cluster.job(job_id)
        return job if job["state"] == "JOB_STATE_GATHERING" and job["message"].startswith("waits until") else None

    @staticmethod
    def running(cluster, job_id, before):
        job = cluster.job(job_id)
        later = int(job["generation"]) > int(before["generation"]) and job["state"] == "JOB_STATE_RUNNING"
        return job if later else None


if __name__ == "__main__":
    report.main()
