"""Operators take workers out of use: jobs go on without them and lose no step, and the processes stay in the pool."""

import signal
import unittest

from tests import report
from tests.integration.cluster import Cluster, pids_of, step_of, synthetic_job

ENDLESS = 10_000_000


class DrainTest(unittest.TestCase):
    def drain(self, cluster, name, *flags):
        result = cluster.ringctl("drain", name, "--reason=kernel update", *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def worker(self, cluster, name):
        return next(worker for worker in cluster.workers() if worker["name"] == name)

    def pool_events(self, cluster, event_type):
        """The events of that type, which belong to no job, once there are any."""
        return cluster.await_that(event_type, lambda: [event for event in cluster.query("events").get("events", []) if event["type"] == event_type])

    def is_idle(self, cluster, name, pid):
        """It has no job, is drained, and is the same process."""
        worker = self.worker(cluster, name)
        self.assertEqual(worker["state"], "WORKER_STATE_IDLE")
        self.assertEqual(worker["cordon"]["reason"], "kernel update")
        self.assertEqual(int(worker["pid"]), pid)

    def goes_on(self, cluster, job_id, members):
        """The job trains on these workers, and has lost nothing."""
        def is_so():
            job = cluster.job(job_id)
            return job["state"] == "JOB_STATE_RUNNING" and set(pids_of(job)) == set(members)
        cluster.await_that(f"training on {members}", is_so)
        cluster.await_step(job_id, step_of(cluster.job(job_id)) + 20)
        self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])
        self.assertEqual(cluster.events(job_id, "worker.lost"), [])

    def test_an_idle_worker_takes_the_place(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("w", slots=3)
            cluster.await_workers(3)
            job_id = cluster.submit(synthetic_job("endless", ENDLESS, 2, 2))
            cluster.await_step(job_id, 20)
            before = pids_of(cluster.job(job_id))
            drained, stays = sorted(before)
            spare = ({"w-0", "w-1", "w-2"} - set(before)).pop()
            self.assertEqual(self.drain(cluster, drained, "--wait=60s"), f"worker {drained} (host {self.worker(cluster, drained)['host']}): drained\n")
            self.is_idle(cluster, drained, before[drained])
            self.goes_on(cluster, job_id, [stays, spare])
            self.assertEqual(len(cluster.events(job_id, "job.halting")), 1, "it goes and the other comes at the same step")
            self.assertEqual(len(cluster.events(job_id, "worker.relieved")), 1)

    def test_a_job_above_its_min_shrinks_and_grows_again(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("w", slots=2)
            cluster.await_workers(2)
            job_id = cluster.submit(synthetic_job("endless", ENDLESS, 1, 2))
            cluster.await_step(job_id, 20)
            pids = pids_of(cluster.job(job_id))
            self.drain(cluster, "w-0", "--wait=60s")
            self.goes_on(cluster, job_id, ["w-1"])
            self.is_idle(cluster, "w-0", pids["w-0"])
            self.assertEqual(cluster.ringctl("uncordon", "w-0").returncode, 0)
            self.goes_on(cluster, job_id, ["w-0", "w-1"])

    def test_the_last_that_can_train_waits_for_a_successor(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a")
            cluster.await_workers(1)
            job_id = cluster.submit(synthetic_job("endless", ENDLESS))
            cluster.await_step(job_id, 20)
            pid = pids_of(cluster.job(job_id))["a"]
            waited = cluster.ringctl("drain", "a", "--reason=kernel update", "--wait=1s")
            self.assertNotEqual(waited.returncode, 0)
            self.assertIn(f"rank 0 of job {job_id} until that can do without it", waited.stdout)
            self.assertIn("a worker of a still had a job after 1s", waited.stderr)
            self.goes_on(cluster, job_id, ["a"])
            cluster.start_worker("b")
            self.goes_on(cluster, job_id, ["b"])
            self.is_idle(cluster, "a", pid)
            self.assertIn("handed over to worker b", cluster.await_event(job_id, "worker.relieved")[0]["message"])

    def test_a_job_at_its_min_is_suspended_when_the_drain_is_due(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            for name in ("a", "b"):
                cluster.start_worker(name)
            cluster.await_workers(2)
            job_id = cluster.submit(synthetic_job("endless", ENDLESS, 2, 2, checkpoint={"directory": str(cluster.directory / "checkpoints")}))
            cluster.await_step(job_id, 20)
            pid = pids_of(cluster.job(job_id))["a"]
            self.assertIn(f"rank {self.worker(cluster, 'a')['rank']} of job {job_id} until that can do without it, or ", self.drain(cluster, "a", "--by=3s"))
            self.assertIn(f"; needed for now by job {job_id}", self.pool_events(cluster, "pool.draining")[0]["message"])
            self.assertIn("s at most", cluster.ringctl("explain", job_id).stdout)
            self.assertIn(f"taken now, although needed, from job {job_id}", self.pool_events(cluster, "pool.drain_due")[0]["message"])
            suspended = cluster.await_event(job_id, "job.suspended")[0]
            self.is_idle(cluster, "a", pid)
            cluster.start_worker("c")
            self.goes_on(cluster, job_id, ["b", "c"])
            self.assertGreater(step_of(cluster.job(job_id)), int(suspended["step"]))

    def test_a_job_without_checkpoints_waits_with_its_steps_when_the_drain_is_due(self):
        with Cluster() as cluster:
            coordinator = cluster.start_coordinator()
            for name in ("a", "b"):
                cluster.start_worker(name)
            cluster.await_workers(2)
            job_id = cluster.submit(synthetic_job("endless", ENDLESS, 2, 2))
            cluster.await_step(job_id, 20)
            self.drain(cluster, "a", "--by=5s")
            step = step_of(cluster.job(job_id))
            coordinator.signal(signal.SIGKILL)
            coordinator.wait()
            cluster.start_coordinator(listen=cluster.address)
            self.pool_events(cluster, "pool.drain_due")
            relieved = cluster.await_event(job_id, "worker.relieved")[0]
            self.assertIn("others hold what it held", relieved["message"])
            cluster.start_worker("c")
            self.goes_on(cluster, job_id, ["b", "c"])
            self.assertEqual(cluster.events(job_id, "job.steps_lost"), [])
            self.assertGreaterEqual(step_of(cluster.job(job_id)), step + 20)

    def test_it_outlives_the_coordinator_and_the_process(self):
        with Cluster() as cluster:
            coordinator = cluster.start_coordinator()
            worker = cluster.start_worker("a")
            cluster.await_workers(1)
            host = self.worker(cluster, "a")["host"]
            self.drain(cluster, host)
            for process in (coordinator, worker):
                process.signal(signal.SIGKILL)
                process.wait()
            cluster.start_coordinator(listen=cluster.address)
            cluster.start_worker("a")
            cluster.await_workers(1)
            job_id = cluster.submit(synthetic_job("small", 10))
            explained = cluster.ringctl("explain", job_id)
            self.assertIn("is drained: kernel update", explained.stdout)
            self.assertEqual(cluster.job(job_id)["generation"], "0")
            self.assertIn(f"drained: {host}", cluster.ringctl("status").stdout)
            self.assertEqual(cluster.ringctl("uncordon", host).returncode, 0)
            cluster.await_job(job_id, "SUCCEEDED")

    def test_wrong_names_are_one_line(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a")
            cluster.await_workers(1)
            for words, told in ((("drain", "nobody"), 'no worker and no host is named "nobody"'), (("uncordon", "a"), 'nothing is cordoned as "a"'),
                                (("drain", "a", "--wait=soon"), "--wait"), (("drain", "a", "--by=yesterday"), "--by=yesterday: give a duration"),
                                (("drain", "a", "--by=9999h"), "within must be above 0 and at most 366 days"), (("drain",), "NAME")):
                result = cluster.ringctl(*words)
                self.assertNotEqual(result.returncode, 0)
                self.assertIn(told, result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


if __name__ == "__main__":
    report.main()
