"""Workers whose process is killed come back under their name, with real processes."""

import os
import signal
import unittest

from tests import report
from tests.integration.cluster import Cluster, pids_of, step_of, synthetic_job

ENDLESS = 10_000_000


class SupervisorTest(unittest.TestCase):
    def test_a_killed_worker_comes_back_to_the_pool(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            worker = cluster.start_worker("a", slots=3, restart="auto")
            cluster.await_workers(3)
            before = pids_by_name(cluster)
            os.kill(before["a-1"], signal.SIGKILL)
            after = self.await_successor(cluster, "a-1", before["a-1"])
            self.assertEqual(sorted(after), ["a-0", "a-1", "a-2"])
            self.assertEqual({name for name in after if after[name] != before[name]}, {"a-1"})
            # This worker is as good as any other.
            cluster.run_job(synthetic_job(steps=5, workers_min=3, workers_max=3))
            worker.signal(signal.SIGTERM)
            self.assertEqual(worker.wait(), 143)
            self.assertIn("starts again", worker.output())

    def test_a_killed_member_comes_back_to_its_job(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=3, restart="auto")
            cluster.await_workers(3)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=1, workers_max=3))
            cluster.await_step(job_id, 20)
            before = cluster.job(job_id)
            self.assertEqual(len(before["members"]), 3)
            victim = before["members"][1]
            os.kill(int(victim["pid"]), signal.SIGKILL)

            def is_whole_again():
                job = cluster.job(job_id)
                pids = pids_of(job)
                is_back = pids.get(victim["worker"], int(victim["pid"])) != int(victim["pid"])
                return job if is_back and len(pids) == 3 and job["state"] == "JOB_STATE_RUNNING" else None

            job = cluster.await_that("the job with all three again", is_whole_again)
            self.assertEqual(job["id"], job_id)
            # They train on, and keep comparing hashes of parameters and samples.
            cluster.await_step(job_id, step_of(job) + 100)
            cluster.cancel(job_id)

    def test_a_name_of_another_worker_is_not_fought_for(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", restart="always")
            cluster.await_workers(1)
            # It waits a moment, since the holder might be dead.
            second = cluster.start_worker("a", "--coordinator_timeout=2s", restart="always")
            self.assertEqual(second.wait(), 2)
            self.assertIn("choose another --name", second.output())
            self.assertNotIn("starts again", second.output())

    def test_a_worker_without_a_coordinator_tries_on(self):
        with Cluster() as cluster:
            # Nobody listens on port 1. Its slot gives up after a moment each time, the worker does not.
            worker = cluster.start_worker("a", "--coordinator_timeout=100ms", address="127.0.0.1:1", restart="always")
            cluster.await_that("two ends of the slot", lambda: worker.output().count("exit code 138") >= 2)
            self.assertIsNone(worker.popen.poll(), worker.output())
            worker.signal(signal.SIGTERM)
            self.assertIn(worker.wait(), (138, 143))

    def await_successor(self, cluster, name, pid):
        """Pids by name, once there is another process of that name."""
        def is_back():
            pids = pids_by_name(cluster)
            return pids if pids.get(name, pid) != pid else None
        return cluster.await_that(f"another process of {name}", is_back)


def pids_by_name(cluster):
    return {worker["name"]: int(worker["pid"]) for worker in cluster.workers()}


if __name__ == "__main__":
    report.main()
