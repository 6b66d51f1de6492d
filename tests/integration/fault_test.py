"""Workers and coordinators that are killed, stopped or asked to leave, with real processes."""

import os
import signal
import unittest

from tests import report
from tests.integration.cluster import Cluster, synthetic_job

ENDLESS = 10_000_000


def member_of(job, rank):
    return next(member for member in job["members"] if int(member.get("rank", 0)) == rank)


class FaultTest(unittest.TestCase):
    def test_survivors_go_on_after_a_kill(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=3)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=1, workers_max=3))
            cluster.await_step(job_id, 20)
            job = cluster.job(job_id)
            victim = member_of(job, 1)
            os.kill(int(victim["pid"]), signal.SIGKILL)
            job = cluster.await_that("a new generation", lambda: self.later_generation(cluster, job_id, job))
            self.assertEqual(len(job["members"]), 2)
            verdict = job["verdict"]
            self.assertEqual(verdict["worker"], victim["worker"])
            self.assertEqual(int(verdict["rank"]), 1)
            self.assertEqual(int(verdict["pid"]), int(victim["pid"]))
            self.assertTrue(verdict["evidence"])
            # They train on: hashes of parameters and samples are compared all along.
            cluster.await_step(job_id, int(job["figures"]["step"]) + 200)
            cluster.ringctl("cancel", job_id)
            cluster.await_job(job_id, "CANCELLED")

    @staticmethod
    def later_generation(cluster, job_id, before):
        job = cluster.job(job_id)
        later = int(job["generation"]) > int(before["generation"]) and job["state"] == "JOB_STATE_RUNNING"
        return job if later else None

    def test_a_kill_below_min_fails_the_job_and_names_the_worker(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=2, workers_max=2))
            cluster.await_step(job_id, 5)
            victim = member_of(cluster.job(job_id), 0)
            os.kill(int(victim["pid"]), signal.SIGKILL)
            job = cluster.await_job(job_id, "FAILED")
            verdict = job["verdict"]
            self.assertEqual(verdict["worker"], victim["worker"])
            self.assertEqual(verdict["host"], victim["host"])
            self.assertEqual(int(verdict["pid"]), int(victim["pid"]))
            self.assertGreaterEqual(int(verdict["step"]), 5)
            self.assertEqual(int(job["exit_code"]), 138)
            # The survivor is back in the pool and takes the next job.
            again = cluster.submit(synthetic_job("again", steps=10))
            cluster.await_job(again, "SUCCEEDED")

    def test_a_frozen_worker_loses_its_lease(self):
        with Cluster() as cluster:
            cluster.start_coordinator(budget="4s")
            cluster.start_worker("a", slots=2)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=1, workers_max=2))
            cluster.await_step(job_id, 5)
            before = cluster.job(job_id)
            victim = member_of(before, 1)
            os.kill(int(victim["pid"]), signal.SIGSTOP)
            job = cluster.await_that("a new generation", lambda: self.later_generation(cluster, job_id, before))
            self.assertEqual(job["verdict"]["worker"], victim["worker"])
            # It wakes up after its eviction and changes nothing but to come back to the pool.
            os.kill(int(victim["pid"]), signal.SIGCONT)
            cluster.await_workers(2)
            self.assertEqual(cluster.job(job_id)["generation"], job["generation"])
            cluster.ringctl("cancel", job_id)
            cluster.await_job(job_id, "CANCELLED")

    def test_sigterm_leaves_at_a_step_boundary(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("stays")
            leaver = cluster.start_worker("leaves")
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=1, workers_max=2))
            cluster.await_step(job_id, 5)
            leaver.signal(signal.SIGTERM)
            self.assertEqual(leaver.wait(), 143)
            job = cluster.await_that(
                "one member", lambda: (j := cluster.job(job_id)) and len(j["members"]) == 1 and j)
            self.assertEqual(job["members"][0]["worker"], "stays")
            kinds = {evidence["kind"] for evidence in job["verdict"]["evidence"]}
            self.assertEqual(kinds, {"EVIDENCE_KIND_LEFT"})
            cluster.ringctl("cancel", job_id)
            cluster.await_job(job_id, "CANCELLED")

    def test_children_die_with_their_supervisor(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            worker = cluster.start_worker("a", slots=2)
            cluster.await_workers(2)
            pids = [int(w["pid"]) for w in cluster.workers()]
            worker.signal(signal.SIGKILL)
            worker.wait()
            cluster.await_that("children gone", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))
            cluster.await_workers(0)

    def test_training_outlives_the_coordinator(self):
        with Cluster() as cluster:
            first = cluster.start_coordinator()
            cluster.start_worker("a", slots=2)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=2, workers_max=2))
            cluster.await_step(job_id, 5)
            before = cluster.job(job_id)
            first.signal(signal.SIGKILL)
            first.wait()
            cluster.start_coordinator(listen=cluster.address)
            job = cluster.await_that("members attached again", lambda: self.running(cluster, job_id))
            self.assertEqual(job["generation"], before["generation"])
            self.assertGreater(int(job["figures"]["step"]), int(before["figures"]["step"]))
            cluster.ringctl("cancel", job_id)
            cluster.await_job(job_id, "CANCELLED")

    @staticmethod
    def running(cluster, job_id):
        job = cluster.job(job_id)
        return job if job["state"] == "JOB_STATE_RUNNING" and int(job.get("figures", {}).get("step", 0)) > 0 else None


if __name__ == "__main__":
    report.main()
