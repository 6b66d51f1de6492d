"""Queues: quotas, what is borrowed and given back, limits, and the file that defines them."""

import json

from tests import report
from tests.integration.as_alone import AsAloneTest
from tests.integration.cluster import Cluster, binary, synthetic_job

TWO_TEAMS = "queues:\n  - {name: research, workers: 2}\n  - {name: product, workers: 2}\n"


class QueuesTest(AsAloneTest):
    def queues(self, cluster):
        return {queue["spec"]["name"]: queue for queue in json.loads(self.succeeded(cluster, "queues", "-o", "json"))["queues"]}

    def refused(self, cluster, text, *command):
        result = cluster.ringctl(*command)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(text, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_a_team_gets_its_quota_back_from_a_job_that_borrows_and_no_step_is_lost(self):
        with Cluster() as cluster:
            self.start(cluster, 4)
            (cluster.directory / "queues.yaml").write_text(TWO_TEAMS)
            self.assertIn("research      2", self.succeeded(cluster, "queues", f"--apply={cluster.directory}/queues.yaml"))
            wrong = cluster.directory / "wrong.yaml"
            wrong.write_text("queues: [{name: a, workers: 3, most_workers: 2}]\n")
            self.refused(cluster, "most_workers is 2, below its workers, 3", "queues", f"--apply={wrong}")
            first = cluster.submit(self.trained_job(cluster, "first", queue="research"))
            borrower = cluster.submit(self.trained_job(cluster, "borrower", queue="research"))
            for job_id in (first, borrower):
                cluster.await_step(job_id, 5)
            self.assertEqual(self.queues(cluster)["research"]["borrowed_workers"], 2)
            own = cluster.submit(self.trained_job(cluster, "own", queue="product"))
            suspended = self.await_suspended(cluster, borrower)
            self.assertIn(f"gives way to job {own}, which is within the quota of queue product after step ", suspended["message"])
            ended = {name: cluster.await_job(job_id, "SUCCEEDED")
                     for name, job_id in (("first", first), ("borrower", borrower), ("own", own))}
            for name, job in ended.items():
                self.assert_as_alone(cluster, name, job)
            self.assertEqual(cluster.events(first, "job.halting"), [])
            began = cluster.events(own, "job.running")[0]["time"]
            self.assertLess(began, cluster.events(borrower, "job.resumes")[0]["time"])
            used = {name: queue["used_worker_seconds"] for name, queue in self.queues(cluster).items()}
            self.assertGreater(used["research"], used["product"])
            self.assertGreater(used["product"], 0)

    def test_a_file_is_followed_and_one_that_is_wrong_changes_nothing(self):
        with Cluster() as cluster:
            path = cluster.directory / "queues.yaml"
            path.write_text("queues: [{name: small, workers: 1, most_workers: 2, jobs_per_submitter: 2}]\n")
            coordinator = cluster.start_coordinator(f"--queues_file={path}")
            cluster.start_worker("w", slots=4)
            cluster.await_workers(4)
            in_small = "queue: small\n"
            wide = cluster.submit(in_small + synthetic_job("wide", 1_000_000, 1, 4))
            cluster.await_step(wide, 2)
            # Not the four that it would take.
            self.assertEqual(len(cluster.job(wide)["members"]), 2)
            self.assertEqual(self.queues(cluster)["small"]["workers"], 2)
            waits = cluster.submit(in_small + synthetic_job("waits", 10, 2, 2))
            self.assertIn("waits for room in queue small: jobs before it need 1 of at most 2 workers", self.succeeded(cluster, "explain", waits))
            job = cluster.directory / "job.yaml"
            job.write_text(in_small + synthetic_job("third"))
            self.refused(cluster, "takes 2 jobs of one submitter", "submit", str(job))
            job.write_text(in_small + synthetic_job("large", 10, 3, 3))
            self.refused(cluster, "workers.min is 3, and queue small never has more than 2", "submit", str(job))
            job.write_text("queue: none\n" + synthetic_job("lost"))
            self.refused(cluster, 'there is no queue "none"; there are default, small', "submit", str(job))
            self.refused(cluster, f"the queues are those of the coordinator's --queues_file, {path}",
                         "queues", f"--apply={path}")
            path.write_text("queues: [{name: small, workers: 3, most_workers: 2}]\n")
            cluster.await_output(coordinator, "most_workers is 2, below its workers, 3")
            self.assertEqual(self.queues(cluster)["small"]["spec"]["most_workers"], 2)
            path.write_text("queues: [{name: small, workers: 1, most_workers: 4}]\n")
            # The one that waited begins, and the other one grows.
            cluster.await_job(waits, "SUCCEEDED")
            cluster.await_that("it grows", lambda: len(cluster.job(wide)["members"]) == 4)
            cluster.cancel(wide)

    def test_a_wrong_file_at_the_start_is_an_error(self):
        with Cluster() as cluster:
            path = cluster.directory / "queues.yaml"
            path.write_text("queues: [{name: a, workers: lots}]\n")
            for flag, text in ((f"--queues_file={path}", "queues.yaml:1: queues[0].workers"),
                               (f"--queues_file={cluster.directory}/none.yaml", "none.yaml")):
                coordinator = cluster.spawn("coordinator", [binary("coordinator"), "--listen=127.0.0.1:0", flag,
                                                            f"--state_dir={cluster.directory}/state"])
                self.assertEqual(coordinator.wait(), 2)
                self.assertIn(text, coordinator.output())


if __name__ == "__main__":
    report.main()
