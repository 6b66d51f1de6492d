"""A link between two members breaks while both live and are heard: the members probe it, with real processes on several hosts.

One of its ends goes, or the one that has broken links to several, or nobody if the link has come back."""

import unittest

from tests import report
from tests.chaos.network import Network
from tests.chaos.observer import seconds_of
from tests.integration.cluster import Cluster, Hosts, generation_of, namespaces_unavailable, pids_of, synthetic_job

ENDLESS = 10_000_000
WORKERS = 4
# Seconds from the first report to the verdict: a lease at most, for which a probe has time, at this failure budget.
BUDGET = 4
MOST = 3.0


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
        self.job_id = self.cluster.submit(synthetic_job(steps=ENDLESS, workers_min=2, workers_max=WORKERS, hash_every=1))
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
        self.links.cut_both_ways(self.host_of[one], self.host_of[other])

    def next_generation(self):
        def later():
            job = self.cluster.job(self.job_id)
            return job if generation_of(job) > generation_of(self.before) and job["state"] == "JOB_STATE_RUNNING" else None
        return self.cluster.await_that("another generation", later)

    def check(self, gone):
        """The next generation has all members but `gone`, as they were, and is there as soon as a probe can say so."""
        job = self.next_generation()
        left = {name: pid for name, pid in pids_of(self.before).items() if name not in gone}
        self.assertEqual(pids_of(job), left)
        suspected = self.cluster.events(self.job_id, "worker.suspected")
        halting = [event for event in self.cluster.events(self.job_id, "job.halting")
                   if int(event["generation"]) == generation_of(self.before)]
        self.assertLess(seconds_of(halting[0]["time"]) - seconds_of(suspected[0]["time"]), MOST)
        self.cluster.await_step(self.job_id, int(job["figures"]["step"]) + 20)
        return halting[0]["verdict"]

    def test_one_end_of_a_cut_link_goes(self):
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
        one, other, third = self.ring()[:3]
        self.cut(other, one)
        self.cut(other, third)
        verdict = self.check({other})
        self.assertEqual(verdict["worker"], other)

    def test_nobody_goes_for_a_link_that_comes_back(self):
        self.cut(*self.ring()[:2])
        self.cluster.await_event(self.job_id, "worker.suspected")
        self.links.heal()
        verdict = self.check(set())
        self.assertEqual(verdict["worker"], "")
        self.assertIn("both are alive", verdict["summary"])


if __name__ == "__main__":
    report.main()
