"""Members of a job with parameter servers that live but make no progress: the coordinator gives up the right one, with real processes."""

import unittest

from tests import report
from tests.integration.cluster import Cluster, step_of, synthetic_job

ENDLESS = 10_000_000
JOB = synthetic_job(steps=ENDLESS, workers_min=1, workers_max=2, bucket_bytes=4096,
                    parameter_server="{servers: 2, replicas: 1}")


class ParameterServerStallTest(unittest.TestCase):
    def give_up(self, server=None, worker=None):
        """Arms a fail point in one server or worker only; the coordinator must give it up, and no step is lost."""
        with Cluster() as cluster:
            # How long a step may take is not known yet, so the wait is the cap.
            cluster.start_coordinator("--progress_cap=10s", budget="8s")
            for kind, start, point in (("server", cluster.start_server, server), ("worker", cluster.start_worker, worker)):
                start(f"good-{kind}")
                start(f"{'bad' if point else 'other'}-{kind}", env={"RINGMASTER_FAIL_POINTS": f"{point}=hang@200"} if point else None)
            cluster.await_workers(4)
            job_id = cluster.submit(JOB)
            bad = "bad-server" if server else "bad-worker"

            def judged():
                job = cluster.job(job_id)
                return job if job.get("verdict") and job["state"] == "JOB_STATE_RUNNING" else None
            job = cluster.await_that("a verdict, and a generation after it", judged)
            self.assertEqual(job["verdict"]["worker"], bad, job["verdict"])
            self.assertNotIn(bad, [member["worker"] for member in job["members"]])
            self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])
            cluster.await_step(job_id, step_of(job) + 20)
            cluster.cancel(job_id)

    def test_a_server_that_hangs_in_an_update(self):
        self.give_up(server="shard_host.update")

    def test_a_server_that_hangs_as_the_backup_of_another(self):
        self.give_up(server="shard_host.copy_update")

    def test_a_worker_that_hangs_with_pushes_on_their_way(self):
        self.give_up(worker="train.bucket_ready")


if __name__ == "__main__":
    report.main()
