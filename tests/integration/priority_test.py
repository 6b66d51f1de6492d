"""Priorities and suspension: a job that gives way goes on from exactly where it was, and ends as if it had been alone."""

from tests import report
from tests.integration.as_alone import AsAloneTest
from tests.integration.cluster import Cluster, step_of, synthetic_job


class PriorityTest(AsAloneTest):
    def test_a_third_job_with_a_higher_priority_takes_what_it_needs(self):
        with Cluster() as cluster:
            self.start(cluster, 4)
            first = cluster.submit(self.trained_job(cluster, "first"))
            second = cluster.submit(self.trained_job(cluster, "second"))
            for job_id in (first, second):
                cluster.await_step(job_id, 5)
            third = cluster.submit(self.trained_job(cluster, "third", priority=5))
            suspended = self.await_suspended(cluster, second)
            self.assertIn(f"gives way to job {third} (priority 5) after step ", suspended["message"])
            ended = {name: cluster.await_job(job_id, "SUCCEEDED")
                     for name, job_id in (("first", first), ("second", second), ("third", third))}
            for name, job in ended.items():
                self.assert_as_alone(cluster, name, job)
            # Only one of them had to give way, and nobody waited for longer than it had to.
            self.assertEqual(cluster.events(first, "job.halting"), [])
            resumed = cluster.events(second, "job.resumes")[0]
            self.assertIn("no step is lost", resumed["message"])
            self.assertLess(cluster.events(third, "job.running")[0]["time"], resumed["time"])

    def test_a_job_that_has_overtaken_a_larger_one_gives_way_to_it(self):
        with Cluster() as cluster:
            self.start(cluster, 4, "--overtake_time=0s")
            endless = cluster.submit(synthetic_job("endless", 1_000_000, 2, 2))
            large = cluster.submit(synthetic_job("large", 10, 3, 3))
            small = cluster.submit(self.trained_job(cluster, "small"))
            cluster.await_step(small, 5)
            self.assertIn("lent to jobs that give way", self.succeeded(cluster, "explain", large))
            cluster.cancel(endless)
            suspended = self.await_suspended(cluster, small)
            self.assertIn(f"gives way to job {large}, which it has overtaken after step ", suspended["message"])
            ended = cluster.await_job(large, "SUCCEEDED")
            job = cluster.await_job(small, "SUCCEEDED")
            self.assert_as_alone(cluster, "small", job)
            self.assertLess(ended["end_time"], job["end_time"])

    def test_a_suspended_job_goes_on_after_a_restart_of_the_coordinator(self):
        with Cluster() as cluster:
            coordinator = self.start(cluster, 2)
            job_id = cluster.submit(self.trained_job(cluster, "cold"))
            cluster.await_step(job_id, 5)
            self.succeeded(cluster, "suspend", job_id, "--reason=too warm")
            self.await_suspended(cluster, job_id)
            self.assertIn("SUSPENDED", self.succeeded(cluster, "job", job_id))
            self.assertIn("suspended: too warm", self.succeeded(cluster, "explain", job_id))
            # Its workers are for anybody.
            cluster.run_job(synthetic_job("other", 10, 2, 2))
            self.restart(cluster, coordinator)
            self.assertEqual(cluster.job(job_id)["state"], "JOB_STATE_QUEUED")
            self.succeeded(cluster, "resume", job_id)
            self.assert_as_alone(cluster, "cold", cluster.await_job(job_id, "SUCCEEDED"))

    def test_a_raised_priority_preempts_at_once_and_a_suspended_job_can_be_cancelled(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("w", slots=2)
            cluster.await_workers(2)
            low = cluster.submit(self.trained_job(cluster, "low", steps=1_000_000))
            cluster.await_step(low, 5)
            other = cluster.submit(synthetic_job("other", 1_000_000, 1, 2))
            self.assertEqual(cluster.job(other)["state"], "JOB_STATE_QUEUED")
            self.assertIn("priority 7", self.succeeded(cluster, "priority", other, "7")
                          + self.succeeded(cluster, "job", other))
            self.await_suspended(cluster, low)
            cluster.await_step(other, 5)
            # It writes no checkpoints, so it would lose its steps.
            refused = cluster.ringctl("suspend", other)
            self.assertEqual(refused.returncode, 2)
            self.assertIn("has no checkpoints to go on from", refused.stderr)
            self.assertEqual(cluster.job(low)["queue_position"], 1)
            self.assertIn("needs at least 2 workers", self.succeeded(cluster, "explain", low))
            cluster.cancel(low)
            step = step_of(cluster.job(other))
            cluster.await_step(other, step + 5)
            cluster.cancel(other)

    def test_a_scaled_job_gives_workers_back_and_takes_them_again_without_losing_a_step(self):
        with Cluster() as cluster:
            coordinator = self.start(cluster, 2)
            job_id = cluster.submit(self.trained_job(cluster, "scaled", steps=1_000_000))
            cluster.await_step(job_id, 5)
            self.succeeded(cluster, "scale", job_id, "1", "--reason=a demonstration")
            cluster.await_that("one member", lambda: len(cluster.job(job_id)["members"]) == 1)
            other = cluster.submit(synthetic_job("other", 1_000_000, 1, 1))
            cluster.await_step(other, 5)
            # The numbers outlive the coordinator.
            self.restart(cluster, coordinator)
            self.assertEqual(cluster.job(job_id)["spec"]["workers"]["max"], 1)
            cluster.cancel(other)
            self.succeeded(cluster, "scale", job_id, "1..2")
            cluster.await_that("two members", lambda: len(cluster.job(job_id)["members"]) == 2)
            cluster.await_step(job_id, step_of(cluster.job(job_id)) + 5)
            cluster.cancel(job_id)
            self.assert_losses_as_alone(cluster, "scaled")
            self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])
            self.assertIn("scale", self.succeeded(cluster, "audit"))

    def test_what_cannot_be_is_refused_in_a_line(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            job_id = cluster.submit(synthetic_job("job"))
            for command, text in ((("priority", job_id, "1001"), "priority must be from -1000 to 1000, got 1001"),
                                  (("priority", job_id, "high"), "must be a whole number"),
                                  (("scale", job_id, "few"), "WORKERS must be a number"),
                                  (("scale", job_id, "3..2"), "workers.max must be at least workers.min"),
                                  (("scale", job_id, "65"), "takes at most 64 workers: each needs a sample of every step"),
                                  (("move", job_id, "none"), "there is no queue \"none\""),
                                  (("suspend", "nobody"), "no job has the id or name nobody")):
                refused = cluster.ringctl(*command)
                self.assertNotEqual(refused.returncode, 0)
                self.assertIn(text, refused.stderr)
                self.assertEqual(refused.stderr.count("\n"), 1, refused.stderr)
            cluster.cancel(job_id)
            ended = cluster.ringctl("resume", job_id)
            self.assertIn("has already ended: CANCELLED", ended.stderr)
            invalid = cluster.directory / "invalid.yaml"
            invalid.write_text("priority: 5000\n" + synthetic_job("job"))
            refused = cluster.ringctl("submit", str(invalid))
            self.assertIn("priority", refused.stderr)
            self.assertNotEqual(refused.returncode, 0)


if __name__ == "__main__":
    report.main()
