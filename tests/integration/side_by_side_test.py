"""Several jobs on one pool: each trains as if it were alone, and a fault of one is no other's."""

import os
import signal
import unittest

from tests import report
from tests.integration.cluster import Cluster, generation_of, pids_of, step_of, synthetic_job

ENDLESS = 10_000_000
# A second or more, in which a fault of another job finds it.
STEPS = 3000


def asking(what, job):
    """`job` with one more field of its workers."""
    return job.replace("settle: 300ms", f"settle: 300ms, {what}")


def workers_of(job):
    return {member["worker"] for member in job["members"]}


class SideBySideTest(unittest.TestCase):
    def running(self, cluster, job_id):
        def is_so():
            job = cluster.job(job_id)
            return job if job["state"] == "JOB_STATE_RUNNING" else None
        return cluster.await_that(f"{job_id} running", is_so)

    def test_two_jobs_of_two_share_four_workers(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("w", slots=4)
            cluster.await_workers(4)
            alone = cluster.run_job(synthetic_job("alone", STEPS, 2, 2))
            endless = cluster.submit(synthetic_job("endless", ENDLESS, 2, 2))
            first = self.running(cluster, endless)
            other = cluster.submit(synthetic_job("other", ENDLESS, 2, 2))
            third = cluster.submit(synthetic_job("third", STEPS, 1, 1))
            second = self.running(cluster, other)
            self.assertEqual(len(workers_of(first) | workers_of(second)), 4)
            # No worker is left: the third waits, and says for what.
            explained = cluster.ringctl("explain", third)
            self.assertIn(f"{endless} (RUNNING", explained.stdout)
            self.assertIn("needs at least 1 worker", explained.stdout)
            # The workers of one that has ended are the next one's at once.
            cluster.cancel(other)
            cluster.await_job(third, "SUCCEEDED")

            # It has two workers from its first moment on; the fault may find it in any other.
            beside = cluster.submit(synthetic_job("beside", STEPS, 2, 2))
            name, pid = next(iter(pids_of(first).items()))
            os.kill(pid, signal.SIGKILL)
            ended = cluster.await_job(beside, "SUCCEEDED")
            self.assertEqual(cluster.events(beside, "job.halting"), [])
            self.assertEqual(ended["parameters_hash"], alone["parameters_hash"])
            halted = cluster.await_event(endless, "job.halting")
            self.assertEqual(halted[0]["verdict"]["worker"], name)
            step = step_of(cluster.job(endless))
            cluster.await_step(endless, step + 5)
            self.assertEqual(cluster.events(endless, "job.rolled_back"), [])
            cluster.cancel(endless)

    def test_a_job_says_what_it_needs_of_workers_and_hosts(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("w", slots=2)
            cluster.await_workers(2)
            # One of its host's two, though it would take both.
            alone = cluster.submit(asking("spread: host", synthetic_job("spread", ENDLESS, 1, 2)))
            self.assertEqual(len(workers_of(self.running(cluster, alone))), 1)
            cluster.cancel(alone)
            cluster.await_job(alone, "CANCELLED")
            waiting = cluster.submit(asking("spread: host", synthetic_job("spread", ENDLESS, 2, 2)))
            self.assertIn("workers on a host each: 1 of the 2 in the pool", cluster.ringctl("explain", waiting).stdout)
            cluster.cancel(waiting)
            # A slot's part of the memory that there is.
            memory = int(cluster.query("status")["workers"][0]["memory_bytes"])
            large = cluster.submit(asking(f"memory_bytes: {memory + 1}", synthetic_job("large", ENDLESS, 1, 2)))
            explained = cluster.ringctl("explain", large).stdout
            self.assertRegex(explained, "workers with .*iB of memory: 0 of the 2 in the pool")
            fits = cluster.submit(asking(f"memory_bytes: {memory}", synthetic_job("fits", ENDLESS, 1, 2)))
            self.assertEqual(len(workers_of(self.running(cluster, fits))), 2)
            # A job remembers who had it; a part of the status can be had.
            self.assertEqual(len(cluster.job(fits)["memberships"]), 1)
            shown = cluster.ringctl("status", "--job=fits").stdout
            self.assertIn(fits, shown)
            self.assertNotIn(large, shown)
            cluster.cancel(fits)

    def test_a_restart_of_the_coordinator_keeps_both(self):
        with Cluster() as cluster:
            coordinator = cluster.start_coordinator()
            cluster.start_worker("w", slots=2)
            cluster.await_workers(2)
            jobs = [cluster.submit(synthetic_job(name, ENDLESS)) for name in ("a", "b")]
            before = [self.running(cluster, job_id) for job_id in jobs]
            for job_id in jobs:
                cluster.await_step(job_id, 5)
            coordinator.signal(signal.SIGKILL)
            coordinator.wait()
            cluster.start_coordinator(listen=cluster.address)
            for job_id, was in zip(jobs, before):
                cluster.await_event(job_id, "job.reattached")
                cluster.await_step(job_id, step_of(cluster.job(job_id)) + 5)
                self.assertEqual(generation_of(cluster.job(job_id)), generation_of(was))
                self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])
            for job_id in jobs:
                cluster.cancel(job_id)

    def test_a_job_with_more_than_its_min_gives_to_one_that_waits_and_grows_again(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("w", slots=4)
            cluster.await_workers(4)
            alone = cluster.run_job(synthetic_job("alone", STEPS, 2, 2))
            wide = cluster.submit(synthetic_job("wide", ENDLESS, 1, 4))
            first = self.running(cluster, wide)
            self.assertEqual(len(workers_of(first)), 4)
            cluster.await_step(wide, 5)
            given = cluster.run_job(synthetic_job("given", STEPS, 2, 2))
            self.assertEqual(given["parameters_hash"], alone["parameters_hash"])
            pausing = cluster.events(wide, "job.pausing")
            self.assertIn(f"workers w-2, w-3 go to job {given['id']}", pausing[0]["message"])
            cluster.await_that("it has all workers again", lambda: len(cluster.job(wide)["members"]) == 4)
            step = step_of(cluster.job(wide))
            cluster.await_step(wide, step + 5)
            self.assertEqual(cluster.events(wide, "job.rolled_back"), [])
            # Enough for none: nobody pauses for it.
            before = generation_of(cluster.job(wide))
            vast = cluster.submit(synthetic_job("vast", STEPS, 4, 4))
            explained = cluster.ringctl("explain", vast)
            self.assertIn("needs at least 4 workers; 0 are idle", explained.stdout)
            self.assertEqual(generation_of(cluster.job(wide)), before)
            cluster.cancel(vast)
            cluster.cancel(wide)

    def test_a_job_that_lost_a_worker_is_given_another(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("w", slots=4)
            cluster.await_workers(4)
            narrow = cluster.submit(synthetic_job("narrow", ENDLESS, 2, 2))
            wide = cluster.submit(synthetic_job("wide", ENDLESS, 1, 2))
            before = self.running(cluster, narrow)
            self.running(cluster, wide)
            for job_id in (narrow, wide):
                cluster.await_step(job_id, 5)
            name, pid = next(iter(pids_of(before).items()))
            os.kill(pid, signal.SIGKILL)
            cluster.await_that("it goes on with another",
                               lambda: name not in workers_of(self.running(cluster, narrow)))
            step = step_of(cluster.job(narrow))
            cluster.await_step(narrow, step + 5)
            for job_id in (narrow, wide):
                self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])
                cluster.cancel(job_id)

    def test_a_small_job_overtakes_a_large_one_only_for_a_while(self):
        with Cluster() as cluster:
            cluster.start_coordinator("--overtake_time=0s")
            cluster.start_worker("w", slots=2)
            cluster.await_workers(2)
            endless = cluster.submit(synthetic_job("endless", ENDLESS))
            self.running(cluster, endless)
            large = cluster.submit(synthetic_job("large", 10, 2, 2))
            small = cluster.submit(synthetic_job("small", 10))
            explained = cluster.ringctl("explain", large)
            self.assertIn("kept for it", explained.stdout)
            self.assertEqual(cluster.job(small)["state"], "JOB_STATE_QUEUED")
            cluster.cancel(endless)
            cluster.await_job(large, "SUCCEEDED")
            cluster.await_job(small, "SUCCEEDED")
            self.assertLess(cluster.job(large)["end_time"], cluster.job(small)["end_time"])

    def test_a_job_takes_only_workers_that_have_the_labels_it_asks_for(self):
        def requiring(name, steps, label):
            return synthetic_job(name, steps).replace("workers: {", f"workers: {{require: {{{label}}}, ")

        with Cluster() as cluster:
            coordinator = cluster.start_coordinator()
            cluster.start_worker("a")
            cluster.start_worker("b", "--labels=gpu=h100,zone=b")
            cluster.await_workers(2)
            job = self.running(cluster, cluster.submit(requiring("fast", ENDLESS, "gpu: h100")))
            self.assertEqual(workers_of(job), {"b"})
            waiting = cluster.submit(requiring("waiting", 10, "zone: c"))
            self.assertEqual(cluster.run_job(synthetic_job("any", 10))["members"][0]["worker"], "a")
            explained = cluster.ringctl("explain", waiting)
            self.assertIn("workers with zone=c: 0 of the 2 in the pool", explained.stdout)
            self.assertIn("labels:     device=cpu, gpu=h100, host=", cluster.ringctl("describe", "b").stdout)
            coordinator.signal(signal.SIGKILL)
            coordinator.wait()
            cluster.start_coordinator(listen=cluster.address)
            cluster.start_worker("c", "--labels=zone=c")
            self.assertEqual(workers_of(cluster.await_job(waiting, "SUCCEEDED")), {"c"})
            cluster.cancel(job["id"])
            refused = cluster.start_worker("d", "--labels=host=elsewhere")
            self.assertEqual(refused.wait(), 2)
            self.assertIn('--labels: key "host" is one that every worker has', refused.output())

    def test_a_job_that_is_too_large_keeps_nobody_waiting(self):
        with Cluster() as cluster:
            cluster.start_coordinator("--overtake_time=0s")
            cluster.start_worker("w")
            cluster.await_workers(1)
            huge = cluster.submit(synthetic_job("huge", 10, 9, 9))
            cluster.run_job(synthetic_job("small", 10))
            explained = cluster.ringctl("explain", huge)
            self.assertIn("1 of at least 9", explained.stdout)
            cluster.cancel(huge)


if __name__ == "__main__":
    report.main()
