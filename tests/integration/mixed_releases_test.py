"""Programs of an earlier release and today's in one job, on several hosts: a worker is killed, and the job succeeds.

The earlier ones are in $RINGMASTER_RELEASE_BIN_DIR, where tests/golden/build_release.sh puts them; `tests/run.sh --full` runs both.
"""

import os
import signal
import unittest

from tests import report
from tests.integration.cluster import Cluster, Hosts, generation_of, namespaces_unavailable, pids_of, synthetic_job

OLD = os.environ.get("RINGMASTER_RELEASE_BIN_DIR")
NEW = None
STEPS = 400
UNCHECKED = "frames are not checked"


class MixedReleasesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = None if OLD else "RINGMASTER_RELEASE_BIN_DIR does not say where the programs of an earlier release are"
        why = why or namespaces_unavailable()
        if why:
            raise unittest.SkipTest(why)

    def run_with_a_kill(self, coordinator, workers, victim, server=None, are_checked=(False, False)):
        """`workers` are the releases of w0, w1, ...; `victim` is the number of the one that is killed, never to come back. Returns the
        job. `are_checked`: whether its frames are before and after that."""
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
                self.assertEqual([UNCHECKED not in message for message in assigned], list(are_checked), assigned)

    def test_earlier_workers_with_todays_coordinator(self):
        self.run_with_a_kill(NEW, [OLD, OLD, OLD], victim=1)

    def test_todays_workers_with_an_earlier_coordinator(self):
        self.run_with_a_kill(OLD, [NEW, NEW, NEW], victim=1)

    def test_both_in_one_job(self):
        for coordinator in (NEW, OLD):
            with self.subTest("one of today is killed", is_new=coordinator is NEW):
                self.run_with_a_kill(coordinator, [NEW, OLD, NEW], victim=0)
        with self.subTest("the only earlier one is killed"):
            self.run_with_a_kill(NEW, [NEW, OLD, NEW], victim=1, are_checked=(False, True))

    def test_parameter_servers_of_another_release_than_workers(self):
        for server, worker in ((OLD, NEW), (NEW, OLD)):
            with self.subTest(is_server_new=server is NEW):
                self.run_with_a_kill(NEW, [worker, worker], victim=0, server=[server])


if __name__ == "__main__":
    report.main()
