"""Workers that are told to leave (SIGTERM) with the only copies of what a job has made: no step is lost."""

import signal
import time

from tests import report
from tests.integration.cluster import Cluster, step_of
from tests.integration.data_files import TextTest, steps_of
from tests.integration.jobs import gpt_job

ENDLESS = 10_000_000
LEFT = 143
DRAIN_TIMEOUT = 30


class LeaveTest(TextTest):
    def job(self, workers=2, saves=True, every=ENDLESS):
        checkpoint = {"checkpoint": {"directory": str(self.checkpoints), "every_steps": every}} if saves else {}
        return gpt_job(self.text, workers, steps=ENDLESS, hash_every=1, **checkpoint)

    def running(self, cluster, job_id, workers):
        """Waits until the job trains on slots of these workers alone; returns it."""
        def is_so():
            job = cluster.job(job_id)
            names = {member["worker"].rsplit("-", 1)[0] for member in job["members"]}
            return job if job["state"] == "JOB_STATE_RUNNING" and names == set(workers) else None
        return cluster.await_that(f"training on {workers}", is_so)

    def leave(self, *processes):
        for process in processes:
            process.signal(signal.SIGTERM)
        for process in processes:
            self.assertEqual(process.wait(), LEFT, process.output())

    def goes_on_without_a_loss(self, cluster, job_id, step):
        cluster.await_step(job_id, step + 5)
        self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])
        self.assertEqual(cluster.events(job_id, "job.steps_lost"), [])
        cluster.cancel(job_id)

    def test_the_last_holders_hand_over_to_idle_workers(self):
        for saves in (False, True):
            with self.subTest(saves=saves), Cluster() as cluster:
                cluster.start_coordinator()
                leaver = cluster.start_worker("leaves", slots=2)
                cluster.await_workers(2)
                job_id = cluster.submit(self.job(saves=saves))
                cluster.await_step(job_id, 20)
                cluster.start_worker("stays", slots=2)
                cluster.await_workers(4)
                step = step_of(cluster.job(job_id))
                self.leave(leaver)
                self.running(cluster, job_id, ["stays"])
                relieved = cluster.await_event(job_id, "worker.relieved")
                self.assertRegex(relieved[0]["message"], r"step \d+ was handed over to workers stays-0, stays-1$")
                self.goes_on_without_a_loss(cluster, job_id, step)

    def test_all_leave_at_once_and_a_checkpoint_is_written(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            workers = [cluster.start_worker(name) for name in "abc"]
            cluster.await_workers(3)
            job_id = cluster.submit(self.job(workers=3))
            cluster.await_step(job_id, 20)
            step = step_of(cluster.job(job_id))
            self.leave(*workers)
            saved, = steps_of(self.checkpoints)
            self.assertGreaterEqual(saved, step)
            # Nobody made a step that is not in it.
            self.assertEqual(step_of(cluster.job(job_id)), saved)
            for name in "def":
                cluster.start_worker(name)
            self.running(cluster, job_id, "def")
            resumed, = cluster.await_event(job_id, "job.resumes")
            self.assertIn(f"the checkpoint of step {saved},", resumed["message"])
            loaded, = cluster.await_event(job_id, "checkpoint.loaded")
            self.assertIn(f"step-{saved:09}", loaded["message"])
            self.goes_on_without_a_loss(cluster, job_id, saved)

    def test_they_leave_one_after_the_other_and_the_last_one_writes_a_checkpoint(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            first, last = (cluster.start_worker(name) for name in "ab")
            cluster.await_workers(2)
            job_id = cluster.submit(self.job())
            cluster.await_step(job_id, 20)
            self.leave(first)
            cluster.await_event(job_id, "job.gathering")
            self.assertEqual(steps_of(self.checkpoints), [])
            step = step_of(cluster.job(job_id))
            self.leave(last)
            saved, = steps_of(self.checkpoints)
            self.assertGreaterEqual(saved, step)
            relieved = cluster.events(job_id, "worker.relieved")
            self.assertIn(f"the checkpoint of step {saved} is written", relieved[-1]["message"])

    def test_the_coordinator_is_shut_down_with_them(self):
        with Cluster() as cluster:
            coordinator = cluster.start_coordinator()
            workers = [cluster.start_worker(name) for name in "ab"]
            cluster.await_workers(2)
            job_id = cluster.submit(self.job())
            cluster.await_step(job_id, 20)
            step = step_of(cluster.job(job_id))
            coordinator.signal(signal.SIGTERM)
            begin = time.monotonic()
            self.leave(*workers)
            # Both know that it is saved; neither waits for its --drain_timeout.
            self.assertLess(time.monotonic() - begin, DRAIN_TIMEOUT / 2)
            saved, = steps_of(self.checkpoints)
            self.assertGreaterEqual(saved, step)

    def test_without_checkpoints_a_leaver_waits_for_a_successor_and_says_so(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            leaver = cluster.start_worker("leaves")
            cluster.await_workers(1)
            job_id = cluster.submit(self.job(workers=1, saves=False))
            cluster.await_step(job_id, 20)
            step = step_of(cluster.job(job_id))
            leaver.signal(signal.SIGTERM)
            cluster.await_event(job_id, "worker.awaits_successor")
            cluster.await_output(leaver, "the job has no checkpoint directory; if none comes in time, ")
            explained = cluster.ringctl("explain", job_id).stdout
            self.assertIn("waits for a worker that takes over step", explained)
            cluster.start_worker("late")
            self.assertEqual(leaver.wait(), LEFT)
            self.running(cluster, job_id, ["late"])
            self.goes_on_without_a_loss(cluster, job_id, step)

    def test_successors_that_are_not_ready_in_time_leave_it_to_a_checkpoint(self):
        with Cluster() as cluster:
            cluster.start_coordinator(budget="2s")
            leaver = cluster.start_worker("leaves", "--drain_timeout=8s")
            cluster.await_workers(1)
            job_id = cluster.submit(self.job(workers=1))
            cluster.await_step(job_id, 20)
            cluster.start_worker("hangs", env={"RINGMASTER_FAIL_POINTS": "train.prepare=hang"})
            cluster.await_workers(2)
            step = step_of(cluster.job(job_id))
            self.leave(leaver)
            saved, = steps_of(self.checkpoints)
            self.assertGreaterEqual(saved, step)
            self.assertEqual(cluster.events(job_id, "job.steps_lost"), [])

    def test_a_stay_that_is_shorter_than_a_checkpoint_takes_is_said_with_both_figures(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            leaver = cluster.start_worker("leaves", "--drain_timeout=1ms")
            cluster.start_worker("stays")
            cluster.await_workers(2)
            job_id = cluster.submit(self.job(every=20))
            cluster.await_event(job_id, "checkpoint.written")
            self.leave(leaver)
            warning, = cluster.await_event(job_id, "worker.drain_too_short")
            self.assertRegex(warning["message"], r"^worker leaves stays for 1ms at most, but the last checkpoint took [\d.]+m?s to write: ")

    def test_nobody_comes_in_time_and_the_loss_is_told(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            leaver = cluster.start_worker("leaves", "--drain_timeout=2s")
            cluster.await_workers(1)
            job_id = cluster.submit(self.job(workers=1, saves=False))
            cluster.await_step(job_id, 20)
            self.leave(leaver)
            lost, = cluster.await_event(job_id, "job.steps_lost")
            self.assertRegex(lost["message"],
                             r"^worker leaves leaves: \d+ steps are lost, since nobody took over, and the job has no")
            self.assertRegex(cluster.ringctl("explain", job_id).stdout, r"\d+ steps are lost, since nobody took over")


if __name__ == "__main__":
    report.main()
