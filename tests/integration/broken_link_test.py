"""A link between two members breaks while both live and are heard, with real processes on several hosts.

The members probe one that is cut. One of its ends goes, or the one that has broken links to several, or nobody if the link has come
back. One that is reset again and again costs next to nothing, and then one of its ends its place, if the job can do without."""

import time
import unittest

from tests import report
from tests.chaos import connections
from tests.chaos.network import Network
from tests.chaos.observer import duration_of, seconds_of
from tests.integration.cluster import Cluster, Hosts, generation_of, namespaces_unavailable, pids_of, synthetic_job

ENDLESS = 10_000_000
WORKERS = 4
BUDGET = 4
# Seconds from the cut to the verdict, at this budget, on a machine that has other work: half a lease of standing still, two beats and
# a probe take 3.8. The ends themselves are sure of it after 4.9, and are probed then.
MOST = 6.0
# Of the time in which a link is reset once a second, on such a machine.
LEAST_GOODPUT = 0.9


class BrokenLinkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = namespaces_unavailable()
        if why:
            raise unittest.SkipTest(why)

    def setUp(self):
        self.network = self.enterContext(Hosts(WORKERS + 1))
        self.links = Network(self.network)
        self.cluster = self.enterContext(Cluster())
        self.cluster.start_coordinator(host=self.network[0], budget=f"{BUDGET}s")
        self.host_of = {f"w{index}": self.network[index + 1] for index in range(WORKERS)}
        for name, host in self.host_of.items():
            self.cluster.start_worker(name, host=host)
        self.cluster.await_workers(WORKERS)

    def start_job(self, least=2):
        self.job_id = self.cluster.submit(synthetic_job(steps=ENDLESS, workers_min=least, workers_max=WORKERS, hash_every=1))
        self.cluster.await_step(self.job_id, 20)
        self.before = self.cluster.job(self.job_id)

    def enterContext(self, context):  # Python 3.11 has it
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def ring(self):
        """The members' names by rank."""
        return [member["worker"] for member in sorted(self.before["members"], key=lambda member: int(member.get("rank", 0)))]

    def cut(self, one, other):
        self.cut_at = time.time()
        self.links.cut_both_ways(self.host_of[one], self.host_of[other])

    def next_generation(self):
        def later():
            job = self.cluster.job(self.job_id)
            return job if generation_of(job) > generation_of(self.before) and job["state"] == "JOB_STATE_RUNNING" else None
        return self.cluster.await_that("another generation", later)

    def check(self, gone):
        """The next generation has all members but `gone`, as they were; returns why."""
        job = self.next_generation()
        left = {name: pid for name, pid in pids_of(self.before).items() if name not in gone}
        self.assertEqual(pids_of(job), left)
        halting = [event for event in self.cluster.events(self.job_id, "job.halting")
                   if int(event["generation"]) == generation_of(self.before)]
        if gone:
            self.assertLess(seconds_of(halting[0]["time"]) - self.cut_at, MOST)
        self.cluster.await_step(self.job_id, int(job["figures"]["step"]) + 20)
        return halting[0]["verdict"]

    def test_one_end_of_a_cut_link_goes(self):
        self.start_job()
        pair = self.ring()[:2]
        self.cut(*pair)
        gone = set(pids_of(self.before)) - set(pids_of(self.next_generation()))
        self.assertEqual(len(gone), 1, gone)
        self.assertLess(gone, set(pair))
        verdict = self.check(gone)
        self.assertEqual({verdict["worker"]}, gone)
        self.assertEqual({evidence["kind"] for evidence in verdict["evidence"]}, {"EVIDENCE_KIND_PEER_REPORT"})
        self.assertIn("could not be made again", verdict["evidence"][0]["detail"])

    def test_one_that_is_cut_off_from_two_goes(self):
        self.start_job()
        one, other, third = self.ring()[:3]
        self.cut(other, one)
        self.cut(other, third)
        verdict = self.check({other})
        self.assertEqual(verdict["worker"], other)

    def test_nobody_goes_for_a_link_that_comes_back(self):
        self.start_job(least=WORKERS)  # so that nobody goes before an end has given the link up
        self.cut(*self.ring()[:2])
        self.cluster.await_event(self.job_id, "worker.suspected")
        self.links.heal()
        verdict = self.check(set())
        self.assertEqual(verdict["worker"], "")
        self.assertIn("both are alive", verdict["summary"])

    def reset_ten_times(self, one, other):
        """Resets the link of the two once a second, and returns how often there was one."""
        began = time.time()
        resets = []
        for second in range(10):
            pids = pids_of(self.cluster.job(self.job_id))
            if one in pids and connections.reset(pids[one], self.host_of[other].address):
                resets.append(time.time())
            time.sleep(max(0.0, began + second + 1 - time.time()))
        resumed = [seconds_of(event["time"]) for event in self.cluster.events(self.job_id, "job.resumed")]
        stood_still = sum(min(at for at in resumed if at > reset) - reset for reset in resets)
        print(f"{len(resets)} resets: stood still for {stood_still:.3f} s of {time.time() - began:.1f} s")
        self.assertLess(stood_still, (1 - LEAST_GOODPUT) * (time.time() - began))
        # The coordinator's own account, whose times of progress come with beats, says the same.
        goodput = self.cluster.job(self.job_id)["goodput"]
        self.assertAlmostEqual(duration_of(goodput["detecting"]) + duration_of(goodput["recovering"]), stood_still, delta=0.5)
        return len(resets)

    def test_a_link_that_is_reset_again_and_again_costs_one_end_its_place(self):
        self.start_job()
        pair = self.ring()[:2]
        # Reports that all explain one another tell of no link, so such a time does not count.
        self.assertIn(self.reset_ten_times(*pair), range(5, 9))
        job = self.cluster.job(self.job_id)
        gone = set(pids_of(self.before)) - set(pids_of(job))
        self.assertEqual(len(gone), 1, gone)
        self.assertLess(gone, set(pair))
        self.assertIn("broke 5 times in short succession", job["verdict"]["summary"])

    def test_a_job_that_needs_both_ends_outlives_ten_resets(self):
        self.start_job(least=WORKERS)
        self.assertEqual(self.reset_ten_times(*self.ring()[:2]), 10)
        self.assertEqual(pids_of(self.cluster.job(self.job_id)), pids_of(self.before))


if __name__ == "__main__":
    report.main()
