"""Programs of an earlier release together with today's, on several hosts: a worker is killed, and the job succeeds.

The earlier ones are in $RINGMASTER_RELEASE_BIN_DIR, where tests/golden/build_release.sh puts them; `tests/run.sh --full` runs both.
"""

import os
import signal
import unittest

from tests import report
from tests.integration.cluster import Cluster, Hosts, generation_of, namespaces_unavailable, pids_of, synthetic_job

OLD = os.environ.get("RINGMASTER_RELEASE_BIN_DIR")
NEW = None
STEPS = 1500
UNCHECKED = "frames are not checked"


class MixedReleasesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = None if OLD else "RINGMASTER_RELEASE_BIN_DIR does not say where the programs of an earlier release are"
        why = why or namespaces_unavailable()
        if why:
            raise unittest.SkipTest(why)

    def run_with_a_kill(self, coordinator, workers, victim, server=None):
        """`workers` are the releases of w0, w1, ...; `victim` is the number of the one that is killed, never to come back."""
        with Hosts(2 + len(workers)) as hosts, Cluster() as cluster:
            cluster.start_coordinator(host=hosts[0], bin_dir=coordinator)
            for index, release in enumerate(workers):
                cluster.start_worker(f"w{index}", host=hosts[1 + index], bin_dir=release)
            train = {}
            if server is not None:
                cluster.start_server("s", host=hosts[-1], bin_dir=server[0])
                train = {"parameter_server": "{servers: 1, deterministic: true}"}
            members = len(workers) + (server is not None)
            cluster.await_workers(members)
            job_id = cluster.submit(synthetic_job(
                steps=STEPS, workers_min=len(workers) - 1, workers_max=len(workers), hash_every=1,
                emulate_compute="{forward: 100us, backward: 150us}", **train))
            cluster.await_step(job_id, 30)
            before = cluster.job(job_id)
            self.assertEqual(len(before["members"]), members)
            os.kill(pids_of(before)[f"w{victim}"], signal.SIGKILL)
            job = cluster.await_job(job_id, "SUCCEEDED")
            self.assertEqual(len(job["members"]), members - 1)
            self.assertEqual(int(job["figures"]["step"]), STEPS)
            self.assertEqual(job["verdict"]["worker"], f"w{victim}")
            assigned = [event["message"] for event in cluster.events(job_id, "job.assigned")]
            self.assertEqual(len(assigned), generation_of(job) - generation_of(before) + 1, assigned)
            if coordinator is NEW:
                self.assertTrue(all(UNCHECKED in message for message in assigned), assigned)

    def test_earlier_workers_with_todays_coordinator(self):
        self.run_with_a_kill(NEW, [OLD, OLD, OLD], victim=1)

    def test_todays_workers_with_an_earlier_coordinator(self):
        self.run_with_a_kill(OLD, [NEW, NEW, NEW], victim=1)

    def test_workers_of_both_releases_in_one_job_are_told_apart(self):
        """The text on which ranks agree before the first step has other words since release 0.1 (docs/decisions/0024)."""
        with Hosts(4) as hosts, Cluster() as cluster:
            cluster.start_coordinator(host=hosts[0])
            for index, release in enumerate((NEW, OLD, NEW)):
                cluster.start_worker(f"w{index}", host=hosts[1 + index], bin_dir=release)
            cluster.await_workers(3)
            job = cluster.run_job(synthetic_job(workers_min=2, workers_max=3))
            self.assertEqual({member["worker"] for member in job["members"]}, {"w0", "w2"})
            self.assertEqual(job["verdict"]["worker"], "w1")
            self.assertIn("the plan differs", job["verdict"]["summary"])
            # Without the earlier one all members know checksums.
            assigned = [event["message"] for event in cluster.events(job["id"], "job.assigned")]
            self.assertIn(UNCHECKED, assigned[0])
            self.assertNotIn(UNCHECKED, assigned[-1])

    def test_parameter_servers_of_another_release_than_workers(self):
        for server, worker in ((OLD, NEW), (NEW, OLD)):
            with self.subTest(is_server_new=server is NEW):
                self.run_with_a_kill(NEW, [worker, worker], victim=0, server=[server])


if __name__ == "__main__":
    report.main()
