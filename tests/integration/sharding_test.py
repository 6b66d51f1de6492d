"""A job whose workers keep parts of the optimizer's moments loses none of them, with real processes."""

import os
import signal
import unittest

from tests import report
from tests.integration.cluster import Cluster, step_of, synthetic_job

ENDLESS = 10_000_000
LEFT = 143


class ShardingTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster())
        self.cluster.start_coordinator()
        self.workers = {name: self.cluster.start_worker(name) for name in "abcde"}
        self.cluster.await_workers(5)

    def submit(self, **overrides):
        job_id = self.cluster.submit(synthetic_job(steps=ENDLESS, workers_min=1, workers_max=5, hash_every=1,
                                                   optimizer_sharding={"mirror": 1}, **overrides))
        self.cluster.await_step(job_id, 20)
        return job_id

    def members(self, job_id):
        """The workers of the job by rank, once it trains."""
        def running():
            job = self.cluster.job(job_id)
            return job if job["state"] == "JOB_STATE_RUNNING" else None
        job = self.cluster.await_that("training", running)
        return {int(member.get("rank", 0)): member for member in job["members"]}

    def trains_on(self, job_id, ranks):
        """Waits until so many ranks have made further steps from those that there were."""
        def fewer():
            job = self.cluster.job(job_id)
            return job if job["state"] == "JOB_STATE_RUNNING" and len(job["members"]) == ranks else None
        job = self.cluster.await_that(f"{ranks} ranks", fewer)
        self.cluster.await_step(job_id, step_of(job) + 20)
        self.assertEqual(self.cluster.events(job_id, "job.rolled_back"), [])
        self.assertEqual(self.cluster.events(job_id, "job.steps_lost"), [])

    def test_ranks_are_killed_one_after_the_other(self):
        job_id = self.submit()
        for left in (4, 3, 2, 1):
            members = self.members(job_id)
            os.kill(int(members[left // 2]["pid"]), signal.SIGKILL)
            self.trains_on(job_id, left)

    def test_they_leave_one_after_the_other(self):
        job_id = self.submit()
        for left in (4, 3, 2):
            leaver = self.workers[self.members(job_id)[1]["worker"]]
            leaver.signal(signal.SIGTERM)
            self.assertEqual(leaver.wait(), LEFT, leaver.output())
            self.trains_on(job_id, left)

    def test_it_is_scaled_down_and_up(self):
        job_id = self.submit()
        self.cluster.ringctl("scale", job_id, "1..2")
        self.trains_on(job_id, 2)
        self.cluster.ringctl("scale", job_id, "1..5")
        self.trains_on(job_id, 5)

    def test_of_neighbours_that_are_killed_together_the_checkpoint_is_left(self):
        directory = self.cluster.directory / "checkpoints"
        job_id = self.submit(checkpoint={"directory": str(directory), "every_steps": 10})
        members = self.members(job_id)
        for rank in (1, 2):
            os.kill(int(members[rank]["pid"]), signal.SIGKILL)
        loaded = self.cluster.await_event(job_id, "checkpoint.loaded")
        self.assertRegex(loaded[0]["message"], r"step-\d+")
        self.cluster.await_step(job_id, step_of(self.cluster.job(job_id)) + 20)


if __name__ == "__main__":
    report.main()
