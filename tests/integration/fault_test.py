"""Workers and coordinators that are killed, stopped or asked to leave, with real processes."""

import os
import re
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
            cluster.await_workers(3)
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
            cluster.cancel(job_id)

    @staticmethod
    def later_generation(cluster, job_id, before):
        job = cluster.job(job_id)
        later = int(job["generation"]) > int(before["generation"]) and job["state"] == "JOB_STATE_RUNNING"
        return job if later else None

    def test_a_job_below_min_waits_with_its_state_for_another_worker(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=2, workers_max=2, hash_every=1))
            cluster.await_step(job_id, 5)
            before = cluster.job(job_id)
            victim, survivor = member_of(before, 0), member_of(before, 1)
            os.kill(int(victim["pid"]), signal.SIGKILL)
            job = cluster.await_that("that the job waits", lambda: self.in_state(cluster, job_id, "GATHERING"))
            held = re.search(rf"1 of at least 2; step (\d+) is held by worker {survivor['worker']} \(rank 1\)", job["message"])
            self.assertTrue(held, job["message"])
            self.assertGreaterEqual(int(held[1]), 5)
            verdict = job["verdict"]
            self.assertEqual(verdict["worker"], victim["worker"])
            self.assertEqual(verdict["host"], victim["host"])
            self.assertEqual(int(verdict["pid"]), int(victim["pid"]))
            # Any worker will do: it takes the state over and the job goes on where it was, without losing a step.
            cluster.start_worker("b")
            job = cluster.await_that("a new generation", lambda: self.later_generation(cluster, job_id, before))
            self.assertEqual({member["worker"] for member in job["members"]}, {survivor["worker"], "b"})
            cluster.await_step(job_id, int(held[1]) + 20)
            self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])
            cluster.cancel(job_id)

    def test_a_worker_that_wakes_up_after_its_eviction_comes_back_as_a_newcomer(self):
        with Cluster() as cluster:
            cluster.start_coordinator(budget="4s")
            frozen = cluster.start_worker("frozen")
            stays = cluster.start_worker("stays")
            cluster.await_workers(2)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=1, workers_max=2, hash_every=1))
            cluster.await_step(job_id, 5)
            before = cluster.job(job_id)
            frozen.signal(signal.SIGSTOP)
            alone = cluster.await_that("a new generation", lambda: self.later_generation(cluster, job_id, before))
            self.assertEqual([member["worker"] for member in alone["members"]], ["stays"])
            self.assertEqual(alone["verdict"]["worker"], "frozen")
            # The job goes on meanwhile.
            goal = int(alone["figures"]["step"]) + 20
            cluster.await_step(job_id, goal)
            frozen.signal(signal.SIGCONT)
            both = cluster.await_that("the worker's return", lambda: self.later_generation(cluster, job_id, alone))
            self.assertEqual({member["worker"] for member in both["members"]}, {"frozen", "stays"})
            # Its earlier steps do not count: nobody goes back, and its parameters are the other's, step by step
            # (a difference would fail the job).
            self.assertGreaterEqual(int(both["figures"]["step"]), goal)
            cluster.await_step(job_id, int(both["figures"]["step"]) + 20)
            self.assertIsNone(frozen.popen.poll())
            self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])
            cluster.cancel(job_id)
            # Both ended after the same step, with the same parameters.
            pauses = [re.search(r"job\.paused .*step (\d+): stopped", worker.output()[worker.output().rindex("job.assigned"):])
                      for worker in (frozen, stays)]
            self.assertEqual(pauses[0][1], pauses[1][1])

    def test_a_worker_that_fails_without_knowing_why_blames_nobody_and_goes_in_the_end(self):
        with Cluster() as cluster:
            cluster.start_coordinator(budget="4s")
            cluster.start_worker("a")
            cluster.start_worker("b")
            cluster.start_worker("odd", env={"RINGMASTER_FAIL_POINTS": "train.reduced=error@50"})
            cluster.await_workers(3)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=2, workers_max=3))
            # Each other rank reports the neighbour that it waits for. If these are a chain each time, one alone names odd, and goes first; its word
            # counts until the next step, and so odd is the next to go (decision 0042).
            cluster.await_that("that it goes", lambda: any(event["worker"] == "odd" for event in cluster.events(job_id, "worker.lost")))
            reports = [event["message"] for event in cluster.events(job_id, "worker.suspected")]
            self.assertTrue(reports)
            self.assertEqual([report for report in reports if report.startswith("worker odd")], [])
            cluster.await_step(job_id, 100)
            cluster.cancel(job_id)

    def test_where_two_states_differ_the_job_trusts_neither(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a")
            # A bit of its memory flips before the members compare what they hold with a newcomer's copy.
            cluster.start_worker("b", env={"RINGMASTER_FAIL_POINTS": "train.transfer_flip=error"})
            cluster.await_workers(2)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=2, workers_max=3,
                                                  checkpoint=f"{{directory: {cluster.directory / 'checkpoints'}, every_steps: 10}}"))
            cluster.await_event(job_id, "checkpoint.written")
            cluster.start_worker("c")
            rolled_back = cluster.await_event(job_id, "job.rolled_back")[0]["message"]
            self.assertRegex(rolled_back, r"goes back to the checkpoint of step \d+")
            why = cluster.events(job_id, "job.halting")[-1]["message"]
            self.assertRegex(why, r"held different states: after the copy of the state of step \d+, .*no majority of them agrees "
                                  r"\(rank 0 [0-9a-f]{16}, rank 1 [0-9a-f]{16}\)")
            cluster.await_event(job_id, "checkpoint.loaded")
            running = cluster.await_that("that it trains again", lambda: self.in_state(cluster, job_id, "RUNNING"))
            self.assertEqual(len(running["members"]), 3)
            cluster.await_step(job_id, int(running["figures"]["step"]) + 10)
            cluster.cancel(job_id)

    @staticmethod
    def in_state(cluster, job_id, state):
        job = cluster.job(job_id)
        return job if job["state"] == f"JOB_STATE_{state}" else None

    def test_two_workers_that_cannot_reach_each_other_are_both_named(self):
        # Both reach the coordinator, but one advertises an address for documentation (RFC 5737), which nobody has.
        with Cluster() as cluster:
            cluster.start_coordinator(budget="2s")
            cluster.start_worker("astray", "--advertise=192.0.2.1")
            cluster.await_workers(1)
            cluster.start_worker("b")
            cluster.await_workers(2)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=2, workers_max=2))
            # Each probes the other. Astray reaches b, and is not reached itself: it goes, or, where a refusal comes before its own report, b does, who
            # alone says so then (decision 0035). The job waits and says why.
            cluster.await_that("that the job waits", lambda: self.in_state(cluster, job_id, "GATHERING"))
            why = cluster.ringctl("explain", job_id).stdout
            self.assertRegex(why, r"missing: rank (0 \(worker astray, .* its link to b|1 \(worker b, .* its link to astray)"
                                  r" could not be made again.* 192\.0\.2\.1:\d+")
            cluster.await_workers(2)
            cluster.cancel(job_id)

    def test_sigterm_leaves_at_a_step_boundary(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("stays")
            leaver = cluster.start_worker("leaves")
            cluster.await_workers(2)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=1, workers_max=2))
            cluster.await_step(job_id, 5)
            leaver.signal(signal.SIGTERM)
            self.assertEqual(leaver.wait(), 143)
            job = cluster.await_that(
                "one member", lambda: (j := cluster.job(job_id)) and len(j["members"]) == 1 and j)
            self.assertEqual(job["members"][0]["worker"], "stays")
            kinds = {evidence["kind"] for evidence in job["verdict"]["evidence"]}
            self.assertEqual(kinds, {"EVIDENCE_KIND_LEFT"})
            cluster.cancel(job_id)

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


if __name__ == "__main__":
    report.main()
