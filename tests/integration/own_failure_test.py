"""Workers that cannot do a job's work, on hosts of their own: each is let go and named with its reason. A newcomer costs the others
nothing, and one that alone holds the job's steps hands them over."""

import json
import pathlib
import subprocess
import unittest

from tests import report
from tests.integration.cluster import Cluster, Hosts, mount_namespaces_unavailable, namespaces_unavailable, step_of
from tests.integration.data_files import TextTest, sentences, steps_of, write_pictures
from tests.integration.jobs import TINY_CNN, gpt_job, train_job

ENDLESS = 10_000_000
UNREADABLE, MISMATCH, RETRY = 5, 3, 138
MEGABYTE = 1 << 20
# Of the data. A vector that grows to it holds half as much again on the way.
SIZE = 128
# The longest that the others may stand still.
STANDSTILL = 5.0


def address_space_of(process):
    """The most address space that the process has used, in bytes."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmPeak:")[1].split()[0]) * 1024


@unittest.skipIf(mount_namespaces_unavailable() or namespaces_unavailable(),
                 mount_namespaces_unavailable() or namespaces_unavailable())
class OwnFailureTest(TextTest):
    def setUp(self):
        super().setUp()
        self.data = self.directory / "data"
        self.data.mkdir()
        # More than the host with too little memory can read.
        self.text = self.data / "text"
        self.text.write_bytes(sentences(MEGABYTE).encode() * SIZE)

    def other_data(self, **files):
        """A directory to be seen in place of the data's."""
        directory = self.directory / f"other-{len(list(self.directory.iterdir()))}"
        directory.mkdir()
        for name, contents in files.items():
            (directory / name).write_bytes(contents)
        return directory

    def start(self, cluster, name, host, script):
        """A worker that runs after `script` of a shell with mounts of its own."""
        return cluster.start_worker(name, host=host, prefix=["unshare", "--mount", "sh", "-c", f'{script} && exec "$0" "$@"'])

    def test_a_newcomer_that_fails_costs_only_itself(self):
        with Hosts(6) as hosts, Cluster() as cluster:
            cluster.start_coordinator(host=hosts[0])
            members = [cluster.start_worker(f"m{index}", host=hosts[index]) for index in (0, 1)]
            cluster.await_workers(2)
            limit = address_space_of(members[0]) + SIZE * MEGABYTE
            job_id = cluster.submit(gpt_job(
                self.text, (2, 3), steps=ENDLESS, hash_every=1, evaluation_samples=64,
                emulate_compute={"forward": "1ms", "backward": "1ms"},
                checkpoint={"directory": str(self.checkpoints), "every_steps": ENDLESS}))
            cluster.await_step(job_id, 20)
            missing = self.other_data()
            stale = self.other_data(text=sentences(MEGABYTE, seed=2).encode()[:self.text.stat().st_size // SIZE] * SIZE)
            self.assertEqual((stale / "text").stat().st_size, self.text.stat().st_size)
            for name, script, code, reason in (
                    ("missing", f"mount --bind {missing} {self.data}", UNREADABLE, f"{self.text}: No such file or directory"),
                    ("stale", f"mount --bind {stale} {self.data}", MISMATCH, "the data differ"),
                    # Address 0 of a process has no memory, and a file that is read there fails as a disk does.
                    ("disk", f"mount --bind /proc/$$/mem {self.text}", UNREADABLE, f"{self.text}: Input/output error"),
                    ("memory", f"ulimit -v {limit // 1024}", RETRY, "this host has too little memory")):
                with self.subTest(name=name):
                    before = step_of(cluster.job(job_id))
                    self.start(cluster, name, hosts[2 + ("missing", "stale", "disk", "memory").index(name)], script)
                    failed = cluster.await_that(f"{name} to fail", lambda: [
                        event for event in cluster.events(job_id, "worker.failed") if event["worker"] == name])
                    self.assertIn(reason, failed[0]["message"])
                    self.assertEqual(failed[0]["verdict"]["exit_code"], code)
                    self.assertIn(reason, cluster.ringctl("explain", job_id).stdout)
                    cluster.await_step(job_id, before + 20)
            # Nobody was interrupted, and no step was lost.
            job = cluster.job(job_id)
            self.assertEqual(int(job["generation"]), 1)
            self.assertEqual({member["worker"] for member in job["members"]}, {"m0", "m1"})
            for event_type in ("job.halting", "job.rolled_back", "job.steps_lost"):
                self.assertEqual(cluster.events(job_id, event_type), [])
            cluster.cancel(job_id)
            self.assertEqual(len(steps_of(self.checkpoints)), 1)
            lines = [line for line in map(json.loads, (self.checkpoints / "metrics.jsonl").read_text().splitlines())
                     if line["kind"] == "step"]
            self.assertEqual([line["step"] for line in lines], list(range(1, len(lines) + 1)))
            self.assertLess(max(after["time"] - line["time"] for line, after in zip(lines, lines[1:])), STANDSTILL)

    def test_the_only_worker_hands_over_what_it_has_made(self):
        pictures = write_pictures(self.directory / "pictures", count=64)
        data = {"image_folder": {"path": str(pictures), "crop_area": 1}}
        steps = 200
        slow = {"forward": "1ms", "backward": "1ms"}
        with Hosts(3) as hosts, Cluster() as cluster:
            cluster.start_coordinator(host=hosts[0])
            first = self.start(cluster, "first", hosts[1], "true")
            cluster.await_workers(1)
            job_id = cluster.submit(train_job({"cnn": TINY_CNN}, data, steps=steps, emulate_compute=slow))
            cluster.await_step(job_id, 20)
            cluster.start_worker("second", host=hosts[2])
            cluster.await_workers(2)
            # On the first one's host alone a picture cannot be read any more.
            picture = next((pictures / "3").iterdir())
            subprocess.run(["nsenter", f"--mount=/proc/{first.pid}/ns/mnt", "mount", "--bind", f"/proc/{first.pid}/mem", str(picture)],
                           check=True)
            event, = cluster.await_event(job_id, "worker.hands_over")
            self.assertIn(str(picture), event["message"])
            self.assertEqual((event["worker"], event["verdict"]["exit_code"]), ("first", UNREADABLE))
            job = cluster.await_job(job_id, "SUCCEEDED")
            self.assertEqual([member["worker"] for member in job["members"]], ["second"])
            relieved, = cluster.events(job_id, "worker.relieved")
            self.assertRegex(relieved["message"], r"step \d+ was handed over to worker second")
            for event_type in ("worker.failed", "job.rolled_back", "job.steps_lost"):
                self.assertEqual(cluster.events(job_id, event_type), [])
            first.kill_group()
            cluster.await_workers(1)
            undisturbed = cluster.run_job(train_job({"cnn": TINY_CNN}, data, steps=steps, emulate_compute=slow))
            self.assertEqual(job["parameters_hash"], undisturbed["parameters_hash"])


if __name__ == "__main__":
    report.main()
