"""What jobs may read and write: only what is beneath the directories that a worker was started with. And a directory of checkpoints
belongs to the job that began it."""

import os
import subprocess
import unittest

from tests import report
from tests.integration.cluster import Cluster, Hosts, binary, namespaces_unavailable
from tests.integration.data_files import TextTest, steps_of
from tests.integration.jobs import gpt_job, train_job

ENDLESS = 10_000_000
USAGE = 2
MLP = {"mlp": {"window": 8, "embedding_dim": 8, "hidden_dim": 16, "hidden_layers": 1}}


class RootsTest(TextTest):
    def setUp(self):
        super().setUp()
        self.data = self.directory / "data"
        self.data.mkdir()
        self.text = self.text.rename(self.data / "text")
        self.private = self.directory / "private"
        self.private.mkdir()
        self.key = self.private / "key"
        self.key.write_text("-----BEGIN PRIVATE KEY-----\n" * 1000)

    def job(self, path=None, **train):
        return gpt_job(path or self.text, **{"steps": 10, **train})

    def checkpoint(self, name, **fields):
        return {"checkpoint": {"directory": str(self.directory / name), **fields}}

    def refused(self, cluster, text):
        """The one line with which the job ends before its first step."""
        job = cluster.await_job(cluster.submit(text), "FAILED")
        self.assertEqual(job["exit_code"], USAGE, job["message"])
        self.assertEqual(int(job.get("figures", {}).get("step", 0)), 0)
        self.assertNotIn("\n", job["message"])
        self.assertNotIn("PRIVATE KEY", cluster.ringctl("-o", "json", "job", job["id"]).stdout)
        return job["message"]

    def test_a_worker_opens_only_what_is_beneath_its_roots(self):
        (self.data / "absolute").symlink_to(self.key)
        (self.data / "relative").symlink_to("../private/key")
        (self.data / "outer").symlink_to(self.private)
        (self.data / "proc").symlink_to("/proc/self/root")
        (self.data / "inner").symlink_to("text")
        (self.directory / "out").mkdir()
        tree = self.directory / "tree"
        tree.mkdir()
        (tree / "stolen").symlink_to(self.key)
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", f"--allow_read={self.data}", f"--allow_read={tree}", f"--allow_write={self.directory / 'out'}", roots={})
            for path in (self.key, self.data / "absolute", self.data / "relative", self.data / "outer/key", self.data / "../private/key",
                         f"{self.data}/proc{self.key}", f"/proc/self/root{self.key}", f"/proc/self/root{self.text}", "/etc/passwd"):
                with self.subTest(path=path):
                    message = self.refused(cluster, self.job(path, sample={"prompt": "-----", "bytes": 100}))
                    self.assertIn(f"train.data.text.path: {path} ", message)
                    self.assertIn(f"--allow_read={self.data}", message)
            # A link that only reading finds.
            self.assertIn(f"{tree}/stolen leads out", self.refused(cluster, self.job(tree)))
            self.assertIn("train.initial_parameters: ", self.refused(cluster, self.job(initial_parameters=str(self.private))))
            for name in ("elsewhere", "data/checkpoints", "out/../elsewhere"):
                with self.subTest(name=name):
                    message = self.refused(cluster, self.job(**self.checkpoint(name)))
                    self.assertIn(f"train.checkpoint.directory: {self.directory / name} ", message)
                    self.assertIn("--allow_write=", message)
            self.assertFalse((self.directory / "elsewhere").exists())
            self.assertFalse((self.data / "checkpoints").exists())

            cluster.run_job(self.job(self.data / "inner", **self.checkpoint("out/deep/job", every_steps=5)))
            self.assertEqual(steps_of(self.directory / "out/deep/job"), [5, 10])
            self.assertTrue((self.directory / "out/deep/job/metrics.jsonl").exists())
            (self.directory / "out/owned").mkdir()
            (self.directory / "out/owned/.owner").symlink_to(self.key)
            message = self.refused(cluster, self.job(**self.checkpoint("out/owned")))
            self.assertIn(f"{self.directory / 'out/owned/.owner'} leads out", message)
            # Links to directories are not followed, wherever they lead.
            (self.directory / "tree/stolen").unlink()
            (self.directory / "tree/text").write_text(self.text.read_text())
            (self.directory / "tree/outer").symlink_to(self.private)
            (self.directory / "tree/gone").symlink_to("/none/gone")
            cluster.run_job(self.job(tree, steps=1))
            # What may be written may be read.
            cluster.run_job(self.job(steps=1, initial_parameters=str(self.directory / "out/deep/job/latest")))

    def test_a_worker_without_roots_trains_on_what_it_makes_itself(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", roots={})
            message = self.refused(cluster, self.job())
            self.assertIn(f"{self.text} is not beneath a directory that this process may read: start it with --allow_read={self.data} "
                          "(it has no --allow_read)", message)
            generated = train_job(MLP, {"synthetic": {"samples": 512}}, steps=10)
            cluster.run_job(generated)
            message = self.refused(cluster, train_job(MLP, {"synthetic": {"samples": 512}}, steps=10, **self.checkpoint("checkpoints")))
            self.assertIn(f"start it with --allow_write={self.directory / 'checkpoints'} (it has no --allow_write)", message)

    def test_a_root_that_is_none_ends_the_worker_with_one_line(self):
        for flag in ("--allow_read", "--allow_write"):
            for path, why in ((self.directory / "none", "No such file or directory"), (self.text, "Not a directory")):
                for slots in (1, 2):
                    result = subprocess.run([binary("worker"), "--coordinator=127.0.0.1:1", f"--slots={slots}", f"{flag}={path}"],
                                            capture_output=True, text=True, timeout=60)
                    self.assertEqual((result.returncode, result.stderr), (USAGE, f"error: {flag}={path}: {why}\n"))

    def test_the_check_of_a_job_knows_the_roots(self):
        job = self.directory / "job.yaml"
        job.write_text(self.job())
        with Cluster() as cluster:
            def doctor(**roots):
                return subprocess.run([binary("ringctl"), "doctor", str(job), f"--bin_dir={cluster.bin_dir()}"], capture_output=True,
                                      text=True, env={**os.environ, **roots}, timeout=120)
            self.assertIn("samples to train on", doctor().stdout)
            self.assertIn("samples to train on", doctor(RINGMASTER_ALLOW_READ=str(self.data)).stdout)
            result = doctor(RINGMASTER_ALLOW_READ=str(self.private))
            self.assertEqual(result.returncode, USAGE, result.stdout)
            self.assertIn("job's files", result.stdout)
            self.assertIn(f"train.data.text.path: {self.text} is not beneath", result.stdout)

    @unittest.skipIf(namespaces_unavailable(), namespaces_unavailable())
    def test_a_newcomer_without_roots_costs_the_others_nothing(self):
        with Hosts(3) as hosts, Cluster() as cluster:
            cluster.start_coordinator(host=hosts[0])
            cluster.start_worker("has", host=hosts[1])
            cluster.await_workers(1)
            job_id = cluster.submit(self.job(workers=(1, 2), steps=ENDLESS, emulate_compute={"forward": "1ms", "backward": "1ms"}))
            cluster.await_step(job_id, 20)
            before = cluster.job(job_id)
            cluster.start_worker("lacks", host=hosts[2], roots={})
            failed = cluster.await_that("its failure", lambda: [
                event for event in cluster.events(job_id, "worker.failed") if event["worker"] == "lacks"])
            self.assertIn(f"start it with --allow_read={self.data}", failed[0]["message"])
            cluster.await_step(job_id, int(cluster.job(job_id)["figures"]["step"]) + 20)
            after = cluster.job(job_id)
            self.assertEqual([after["generation"], after["state"]], [before["generation"], "JOB_STATE_RUNNING"])
            self.assertEqual([member["worker"] for member in after["members"]], ["has"])
            cluster.cancel(job_id)


class OwnerTest(TextTest):
    def job(self, name, steps, **checkpoint):
        return train_job(MLP, {"text": {"path": str(self.text)}}, name=name, steps=steps,
                         checkpoint={"directory": str(self.checkpoints), "every_steps": 5, "keep": 1, **checkpoint})

    def test_a_directory_belongs_to_the_job_that_began_it(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2)
            first = cluster.run_job(self.job("first", 10))
            self.assertEqual((self.checkpoints / ".owner").read_text(), f"{first['id']}\n")
            second = cluster.await_job(cluster.submit(self.job("second", 20)), "FAILED")
            self.assertEqual(second["exit_code"], USAGE)
            self.assertIn(f"train.checkpoint.directory: {self.checkpoints} belongs to job {first['id']}, which began it, and not to "
                          f"{second['id']}: name the job first to go on with its checkpoints", second["message"])
            self.assertEqual(steps_of(self.checkpoints), [10])
            # Submitted again, it goes on, and removes its own.
            again = cluster.run_job(self.job("first", 20))
            self.assertTrue(cluster.await_event(again["id"], "checkpoint.loaded"))
            self.assertEqual(steps_of(self.checkpoints), [20])
            # Handed over: the second goes on from it, and leaves it there.
            (self.checkpoints / ".owner").unlink()
            third = cluster.run_job(self.job("second", 30))
            self.assertIn("step-000000020", cluster.await_event(third["id"], "checkpoint.loaded")[0]["message"])
            self.assertEqual(steps_of(self.checkpoints), [20, 30])
            self.assertEqual((self.checkpoints / ".owner").read_text(), f"{third['id']}\n")

    def test_a_directory_without_an_owner_is_taken_over(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a")
            cluster.run_job(self.job("first", 10))
            (self.checkpoints / ".owner").unlink()
            cluster.run_job(self.job("first", 20))
            self.assertEqual(steps_of(self.checkpoints), [20])


if __name__ == "__main__":
    report.main()
