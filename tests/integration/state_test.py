"""The coordinator's state is backed up while it runs, lost, restored, and goes on: docs/operations.md, "Backup and restore", as it says."""

import json
import shutil
import signal
import subprocess
import unittest

from tests import report
from tests.integration.cluster import (PATIENCE, Cluster, binary, generation_of, mount_namespaces_unavailable, pids_of, steps_in, synthetic_job,
                                       with_mount)

# More than it has time for: it is cancelled in the end.
STEPS = 1_000_000
USAGE, DAMAGED, RETRY = 2, 4, 138


class StateCluster(Cluster):
    def __init__(self):
        super().__init__()
        self.state, self.backup = self.directory / "state", self.directory / "backup"

    def keep(self, command, *args):
        """`ringctl state backup` or `restore`."""
        return self.ringctl("-o", "json", "state", command, f"--state_dir={self.state}", *map(str, args))

    def kept(self, command, *args):
        result = self.keep(command, *args)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)


class StateTest(unittest.TestCase):
    def assert_refused(self, result, code, *texts):
        self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
        self.assertRegex(result.stderr, r"\Aerror: [^\n]*\n\Z")
        for text in texts:
            self.assertIn(str(text), result.stderr)

    def test_a_lost_state_is_restored_and_its_job_trains_on(self):
        with StateCluster() as cluster:
            coordinator = cluster.start_coordinator(budget="4s")
            lost = [cluster.start_worker(name) for name in "abc"][2]
            cluster.await_workers(3)
            ended = cluster.run_job(synthetic_job("ended", steps=10, workers_max=3))
            checkpoints = cluster.directory / "checkpoints"
            running = cluster.submit(synthetic_job("running", steps=STEPS, workers_min=2, workers_max=3, global_batch=2048, hash_every=1,
                                                   checkpoint=f"{{directory: {checkpoints}}}"))
            # More than the other can spare, so it stays in the queue.
            queued = cluster.submit(synthetic_job("queued", steps=10, workers_min=2, workers_max=3))
            cluster.await_step(running, 20)
            made = cluster.kept("backup", f"--out={cluster.backup}")
            self.assertEqual((made["jobs"], made["generation"]), ("3", str(generation_of(cluster.job(running)))))
            # The journal gets a generation that the backup does not have.
            lost.signal(signal.SIGKILL)
            cluster.await_that("the generation without c", lambda: generation_of(cluster.job(running)) > int(made["generation"]))
            job = cluster.job(running)
            self.assert_refused(cluster.keep("restore", cluster.backup, "--force"), USAGE, cluster.state, f"in use by pid {coordinator.pid} ")
            address = cluster.address
            coordinator.signal(signal.SIGKILL)
            coordinator.wait()
            shutil.rmtree(cluster.state)

            restored = cluster.kept("restore", cluster.backup)
            self.assertEqual([restored[name] for name in ("records", "jobs", "generation")],
                             [made[name] for name in ("records", "jobs", "generation")])
            cluster.start_coordinator("--take_over", listen=address, budget="4s")
            cluster.await_event(running, "job.rebuilt")
            steps = len(steps_in(checkpoints / "metrics.jsonl"))
            cluster.await_step(running, steps + 20)
            # The same processes in the same generation, and every step once.
            after = cluster.job(running)
            self.assertEqual((generation_of(after), pids_of(after)), (generation_of(job), pids_of(job)))
            self.assertEqual(cluster.job(ended["id"])["parameters_hash"], ended["parameters_hash"])
            cluster.cancel(running)
            steps = steps_in(checkpoints / "metrics.jsonl")
            self.assertEqual(steps, list(range(1, len(steps) + 1)))
            # The workers are the restored coordinator's: the queue goes on, with higher generations.
            self.assertGreater(generation_of(cluster.await_job(queued, "SUCCEEDED")), generation_of(job))

    def test_a_state_that_nobody_uses_is_backed_up_as_it_was_left(self):
        with StateCluster() as cluster:
            coordinator = cluster.start_coordinator()
            ids = {cluster.submit(synthetic_job(f"job-{i}", workers_min=9, workers_max=9)) for i in range(3)}
            # Killed: its newest records are in the log alone.
            coordinator.signal(signal.SIGKILL)
            coordinator.wait()
            self.assertEqual(cluster.kept("backup", f"--out={cluster.backup}")["jobs"], "3")
            self.assert_refused(cluster.keep("restore", cluster.backup), USAGE, f"there is a state in {cluster.state}", "--force")
            self.assertEqual(cluster.kept("restore", cluster.backup, "--force")["jobs"], "3")
            cluster.start_coordinator("--take_over")
            self.assertEqual({job["id"] for job in cluster.query("status")["jobs"]}, ids)

    def test_a_backup_that_the_disk_cannot_hold_leaves_nothing(self):
        if reason := mount_namespaces_unavailable():
            self.skipTest(reason)
        with StateCluster() as cluster:
            cluster.start_coordinator()
            for i in range(20):
                cluster.submit(synthetic_job(f"job-{i}", workers_min=9, workers_max=9))
            full = cluster.directory / "full"
            full.mkdir()
            # The listing shows what is left there, where no other process can see.
            shell = f'"$0" state backup --state_dir={cluster.state} --out={full}/backup; code=$?; ls -A {full}; exit $code'
            result = subprocess.run([*with_mount(["-t", "tmpfs", "-o", "size=8k", "tmpfs", full]), "sh", "-c", shell, binary("ringctl")],
                                    capture_output=True, text=True, timeout=PATIENCE)
            self.assert_refused(result, RETRY, full / "backup", "full")

    def test_a_damaged_backup_is_refused_and_touches_nothing(self):
        with StateCluster() as cluster:
            coordinator = cluster.start_coordinator()
            job_id = cluster.submit(synthetic_job("job", workers_min=9, workers_max=9))
            cluster.kept("backup", f"--out={cluster.backup}")
            good = cluster.backup.read_bytes()
            # SQLite fills a page from its end: the last place is in the first record.
            at = good.rindex(b"job")
            cluster.backup.write_bytes(good[:at] + b"J" + good[at + 1:])
            coordinator.signal(signal.SIGTERM)
            coordinator.wait()
            self.assert_refused(cluster.keep("restore", cluster.backup, "--force"), DAMAGED, cluster.backup, "record 1")
            cluster.start_coordinator()
            self.assertEqual([job["id"] for job in cluster.query("status")["jobs"]], [job_id])


if __name__ == "__main__":
    report.main()
