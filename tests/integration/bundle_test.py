"""`ringctl bundle` on real programs: a running job, of which a member was killed; a file that is there; an interrupted one."""

import json
import os
import re
import signal
import tarfile
import unittest

from tests import report
from tests.integration.cluster import Cluster, binary, pids_of, synthetic_job


class BundleTest(unittest.TestCase):
    def start(self, cluster, workers=2):
        cluster.start_coordinator()
        for index in range(workers):
            cluster.start_worker(f"w{index}")
        cluster.await_workers(workers)
        job_id = cluster.submit(synthetic_job(steps=100000, workers_min=1, workers_max=workers,
                                              emulate_compute="{forward: 1ms, backward: 1ms}"))
        cluster.await_step(job_id, 3)
        return job_id

    def test_a_bundle_of_a_job_that_lost_a_member(self):
        with Cluster() as cluster:
            job_id = self.start(cluster, workers=3)
            os.kill(pids_of(cluster.job(job_id))["w1"], signal.SIGKILL)
            cluster.await_event(job_id, "job.resumed")
            path = cluster.directory / "bundle.tar.gz"
            result = cluster.ringctl("bundle", job_id, "--out", str(path))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"wrote {path}", result.stdout)
            top = f"ringmaster-{job_id}"
            with tarfile.open(path) as archive:
                content = {name.removeprefix(f"{top}/"): archive.extractfile(name).read().decode()
                           for name in archive.getnames()}
            manifest = json.loads(content["MANIFEST.json"])
            self.assertEqual({file["name"]: file["bytes"] for file in manifest["files"]},
                             {name: len(text.encode()) for name, text in content.items() if name != "MANIFEST.json"})
            self.assertEqual(manifest["missing"], [])
            self.assertEqual(json.loads(content["spec.json"])["train"]["steps"], "100000")
            self.assertEqual(json.loads(content["job.json"])["verdict"]["worker"], "w1")
            self.assertIn("job.resumed", [event["type"] for event in json.loads(content["events.json"])["events"]])
            self.assertTrue(json.loads(content["trace.json"])["traceEvents"])
            self.assertRegex(content["logs/coordinator.log"], r" W worker\.lost .*worker=w1")
            self.assertEqual(len([name for name in content if re.fullmatch(r"logs/rank-\d-w[02]\.log", name)]), 2)
            self.assertIn("worker w1", content["description.txt"])

            again = cluster.ringctl("bundle", job_id, "--out", str(path))
            self.assertEqual(again.returncode, 2)
            self.assertRegex(again.stderr, r"^error: .* is there already: give another --out, or --force to replace it\n$")
            forced = cluster.query("bundle", job_id, "--out", str(path), "--force")
            self.assertEqual(forced["file"], str(path))

    def test_an_interrupted_bundle_leaves_no_file(self):
        with Cluster() as cluster:
            job_id = self.start(cluster)
            stopped = cluster.processes[-1]
            directory = cluster.directory / "out"
            directory.mkdir()
            stopped.signal(signal.SIGSTOP)
            try:
                bundler = cluster.spawn("ringctl", [binary("ringctl"), f"--coordinator={cluster.address}", "bundle", job_id,
                                                    f"--out={directory}/bundle.tar.gz"])
                # It waits up to 2 s for the trace of the worker that stands still.
                cluster.await_that("ringctl has begun", lambda: self.has_connection(bundler))
                bundler.signal(signal.SIGINT)
                self.assertEqual(bundler.wait(), 143)
            finally:
                stopped.signal(signal.SIGCONT)
            self.assertEqual(list(directory.iterdir()), [])

    def has_connection(self, process):
        descriptors = f"/proc/{process.pid}/fd"
        try:
            return any(os.readlink(f"{descriptors}/{name}").startswith("socket:") for name in os.listdir(descriptors))
        except FileNotFoundError:  # closed meanwhile
            return False


if __name__ == "__main__":
    report.main()
