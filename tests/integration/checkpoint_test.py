"""Jobs that write checkpoints and go on from them, with real processes, hosts with their own disks, and full ones."""

import json
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import unittest

from tests import report
from tests.integration.cluster import (
    Cluster, Hosts, binary, inside, mount_namespaces_unavailable, namespaces_unavailable, step_of)
from tests.integration.data_files import TextTest, steps_of
from tests.integration.jobs import TINY_GPT, gpt_job

ENDLESS = 10_000_000
UNREADABLE = 5
READER = pathlib.Path("worker/figures/read_event_file.py")


def tensors_of(path):
    """Name -> (type, shape) of a safetensors file."""
    contents = pathlib.Path(path).read_bytes()
    size, = struct.unpack("<Q", contents[:8])
    header = json.loads(contents[8:8 + size])
    return {name: (tensor["dtype"], tensor["shape"]) for name, tensor in header.items() if name != "__metadata__"}


def lines_of(directory, kind):
    """The lines of metrics.jsonl of that kind, as they stand."""
    lines = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == kind]


def step_lines(directory, kind="step"):
    """The steps of the lines of metrics.jsonl of that kind, as they stand."""
    return [line["step"] for line in lines_of(directory, kind)]


class CheckpointTest(TextTest):
    def job(self, workers=2, steps=40, every=10, directory=None, **checkpoint):
        return gpt_job(self.text, workers, steps=steps, gpt={"dropout": 0.1}, checkpoint={
            "directory": str(directory or self.checkpoints), "every_steps": every, **checkpoint})

    def run_alone(self, job_text, slots=2):
        """Runs the job on a cluster of its own; returns it, and its messages about the checkpoint that it began with."""
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=slots)
            job = cluster.run_job(job_text)
            return job, [event["message"] for event in cluster.events(job["id"], "checkpoint.loaded")]

    def undisturbed(self, steps):
        return self.run_alone(gpt_job(self.text, 2, steps=steps, gpt={"dropout": 0.1}))[0]

    # Going on.

    def test_a_job_whose_processes_all_died_goes_on_from_its_latest_checkpoint(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2, env={"RINGMASTER_FAIL_POINTS": "train.step=hang@26"})
            cluster.submit(self.job(every=20))
            cluster.await_that("a checkpoint", lambda: steps_of(self.checkpoints) == [20])
            # The end of this block is SIGKILL for all.
        copies = {workers: self.directory / f"copy-{workers}" for workers in (1, 3)}
        for copy in copies.values():
            shutil.copytree(self.checkpoints, copy)

        undisturbed = self.undisturbed(steps=40)
        job, loaded = self.run_alone(self.job(every=20))
        self.assertEqual(loaded, [f"starts from {self.checkpoints}/step-000000020"])
        self.assertEqual(job["parameters_hash"], undisturbed["parameters_hash"])
        lines = step_lines(self.checkpoints)
        # A crash may lose the last second's lines.
        self.assertEqual(lines, sorted(set(lines)))
        self.assertEqual(lines[-20:], list(range(21, 41)))

        for workers, copy in copies.items():
            job, loaded = self.run_alone(self.job(workers, every=20, directory=copy), slots=workers)
            self.assertEqual(loaded, [f"starts from {copy}/step-000000020"])
            self.assertAlmostEqual(job["figures"]["evaluation_loss"], undisturbed["figures"]["evaluation_loss"], delta=2e-3)

    def test_a_cancelled_job_goes_on_where_it_stopped(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2)
            job_id = cluster.submit(self.job(steps=ENDLESS, every=5))
            cluster.await_that("a checkpoint", lambda: steps_of(self.checkpoints))
            self.assertEqual(cluster.ringctl("cancel", job_id).returncode, 0)
            stopped = int(cluster.await_job(job_id, "CANCELLED")["figures"]["step"])
            self.assertEqual(steps_of(self.checkpoints)[-1], stopped)
            job = cluster.run_job(self.job(steps=stopped + 5))
            event, = cluster.await_event(job["id"], "checkpoint.loaded")
            self.assertIn(f"{self.checkpoints}/step-{stopped:09}", event["message"])
        self.assertEqual(step_lines(self.checkpoints), list(range(1, stopped + 6)))
        self.assertEqual(steps_of(self.checkpoints)[-1], stopped + 5)
        self.assertEqual(len(steps_of(self.checkpoints)), 2)
        self.assertEqual(job["parameters_hash"], self.undisturbed(stopped + 5)["parameters_hash"])

    def test_a_job_that_is_cancelled_while_it_recovers_writes_what_it_holds(self):
        for waits in (False, True):
            directory = self.directory / f"waits-{waits}"
            with self.subTest(waits=waits), Cluster() as cluster:
                cluster.start_coordinator(budget="2s")
                workers = [cluster.start_worker(name) for name in "abc"]
                cluster.await_workers(3)
                job_id = cluster.submit(self.job(workers=(3 if waits else 1, 3), steps=ENDLESS, every=ENDLESS, directory=directory))
                cluster.await_step(job_id, 20)
                step = step_of(cluster.job(job_id))
                if not waits:
                    workers[1].signal(signal.SIGSTOP)  # so that the halt takes its time
                workers[2].signal(signal.SIGKILL)
                cluster.await_event(job_id, "job.gathering" if waits else "job.halting")
                job = cluster.cancel(job_id)
                saved, = steps_of(directory)
                self.assertGreaterEqual(saved, step)
                self.assertRegex(job["message"], f"^stopped after step {saved}: ")
                self.assertEqual(step_lines(directory), list(range(1, saved + 1)))

    def test_a_cancel_that_cannot_write_a_checkpoint_says_so(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2, env={"RINGMASTER_FAIL_POINTS": "checkpoint.write=error"})
            job_id = cluster.submit(self.job(steps=ENDLESS, every=ENDLESS))
            cluster.await_step(job_id, 20)
            self.assertRegex(cluster.cancel(job_id)["message"],
                             r"^stopped after step \d+: .*; step \d+ is in no checkpoint, since its checkpoint failed .*fail point checkpoint.write")

    def test_a_job_that_was_done_has_nothing_to_do(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2)
            first, again = (cluster.run_job(self.job(steps=20)) for _ in range(2))
            self.assertEqual(again["parameters_hash"], first["parameters_hash"])
            self.assertEqual(int(again["figures"]["step"]), 20)
            self.assertEqual(again["figures"]["evaluation_loss"], first["figures"]["evaluation_loss"])
            self.assertEqual(cluster.events(again["id"], "checkpoint.written"), [])

    def test_a_job_that_shall_not_resume_starts_from_the_beginning(self):
        self.run_alone(self.job(steps=20))
        job, loaded = self.run_alone(self.job(steps=15, every=5, resume=False))
        self.assertEqual(loaded, [])
        self.assertEqual(job["parameters_hash"], self.undisturbed(15)["parameters_hash"])
        self.assertIn(15, steps_of(self.checkpoints))
        self.assertEqual(step_lines(self.checkpoints), list(range(1, 16)))

    # Files that are written.

    def test_other_programs_can_read_what_is_written(self):
        self.run_alone(self.job(steps=20))
        latest = self.checkpoints / "step-000000020"
        width, window = TINY_GPT["width"], TINY_GPT["window"]
        shapes = {"transformer.wte.weight": [256, width], "transformer.wpe.weight": [window, width]}
        for layer in range(TINY_GPT["layers"]):
            block = f"transformer.h.{layer}."
            for name, rows, columns in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width),
                                        ("mlp.c_fc", width, 4 * width), ("mlp.c_proj", 4 * width, width)):
                shapes |= {f"{block}{name}.weight": [rows, columns], f"{block}{name}.bias": [columns]}
            for name in ("ln_1", "ln_2"):
                shapes |= {f"{block}{name}.weight": [width], f"{block}{name}.bias": [width]}
        shapes |= {"transformer.ln_f.weight": [width], "transformer.ln_f.bias": [width]}
        self.assertEqual(tensors_of(latest / "model.safetensors"), {name: ("F32", shape) for name, shape in shapes.items()})
        moments = {f"{moment}/{name}" for name in shapes for moment in ("first_moment", "second_moment")}
        self.assertEqual(set(tensors_of(latest / "optimizer.safetensors")), moments)

        config = json.loads((latest / "config.json").read_text())
        self.assertEqual(config["model_type"], "gpt2")
        self.assertEqual([config[key] for key in ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")],
                         [256, window, width, TINY_GPT["layers"], TINY_GPT["heads"]])
        self.assertEqual(json.loads((latest / "checkpoint.json").read_text())["step"], 20)

        event_file, = self.checkpoints.glob("events.out.tfevents.*")
        events = subprocess.run([sys.executable, str(READER), str(event_file)], capture_output=True, text=True, check=True)
        self.assertEqual(events.stdout.count("train/loss"), 20)

    def test_a_checkpoint_can_be_what_another_job_begins_with(self):
        first, _ = self.run_alone(self.job(steps=20))
        parameters = self.checkpoints / "step-000000020" / "model.safetensors"
        for path in (parameters, parameters.parent):
            job, _ = self.run_alone(gpt_job(self.text, 2, steps=1, initial_parameters=str(path),
                                            optimizer={"adamw": {"learning_rate": 1e-9}}))
            self.assertAlmostEqual(job["figures"]["evaluation_loss"], first["figures"]["evaluation_loss"], delta=1e-4)

    def test_sample_writes_text_from_a_checkpoint(self):
        self.run_alone(self.job(steps=60, every=0))

        def sample(cluster, *flags):
            result = cluster.ringctl_sample(f"--checkpoint={self.checkpoints}", "--prompt=the ring ", "--bytes=60", *flags)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stderr, "")
            return result.stdout

        with Cluster() as cluster:
            text = sample(cluster)
            self.assertTrue(text.startswith("the ring "), text)
            self.assertGreaterEqual(len(text), len("the ring ") + 60)
            self.assertEqual(text, sample(cluster, "--seed=1"))
            shown = json.loads(sample(cluster, "-o", "json"))
            self.assertEqual(shown["prompt"] + shown["text"], text.removesuffix("\n"))
            self.assertNotEqual(text, sample(cluster, "--seed=2"))
            self.assertEqual(sample(cluster, "--temperature=0"), sample(cluster, "--temperature=0", "--seed=2"))
            # One checkpoint of the directory, and its parameters in Hugging Face's layout.
            latest = self.checkpoints / "step-000000060"
            self.assertEqual(text, sample(cluster, f"--checkpoint={latest}"))
            (latest / "checkpoint.json").unlink()
            self.assertEqual(text, sample(cluster, f"--checkpoint={latest}"))

    # Mistakes and failures.

    @unittest.skipIf(mount_namespaces_unavailable(), mount_namespaces_unavailable())
    def test_a_full_disk_costs_checkpoints_and_the_job_says_so(self):
        self.checkpoints.mkdir()
        with Cluster() as cluster:
            cluster.start_coordinator()
            # One checkpoint has about 400 KB.
            worker = cluster.start_worker("a", slots=2, mount=("-t", "tmpfs", "-o", "size=640k", "none", self.checkpoints))
            cluster.run_job(self.job(steps=10, keep=1))
            # It trains to its end, and has not left what it was run for.
            job = cluster.await_job(cluster.submit(self.job(steps=40, keep=1)), "FAILED")
            self.assertEqual(int(job["figures"]["step"]), 40)
            self.assertEqual(job["exit_code"], UNREADABLE)
            self.assertIn(f"the last checkpoint, of step 40, could not be written to {self.checkpoints}: ", job["message"])
            self.assertIn("No space left", job["message"])
            failed = cluster.await_event(job["id"], "checkpoint.failed")
            # This is said of the last one: others may have been skipped while the one before was still being written.
            self.assertIn("No space left", failed[-1]["message"])
            self.assertIn(str(self.checkpoints), failed[-1]["message"])
            there = inside(worker, self.checkpoints)
            self.assertEqual(steps_of(there), [10])
            self.assertEqual(list(there.glob(".tmp-*")), [])
            # The older one is whole: the next job starts from it.
            again = cluster.submit(self.job(steps=12, every=0))
            event, = cluster.await_event(again, "checkpoint.loaded")
            self.assertEqual(event["message"].split(";")[0], f"starts from {self.checkpoints}/step-000000010")

    def refused(self, cluster, text):
        """The reason why a job failed before its first step."""
        job = cluster.await_job(cluster.submit(text), "FAILED")
        self.assertEqual(job["exit_code"], UNREADABLE, job["message"])
        self.assertEqual(int(job.get("figures", {}).get("step", 0)), 0)
        return job["message"]

    def test_a_directory_that_is_a_file_is_refused_before_the_first_step(self):
        self.checkpoints.write_text("not a directory")
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2)
            self.assertIn(f"train.checkpoint.directory: cannot create {self.checkpoints}: Not a directory",
                          self.refused(cluster, self.job(steps=20)))

    @unittest.skipIf(mount_namespaces_unavailable(), mount_namespaces_unavailable())
    def test_a_disk_that_takes_nothing_is_refused_before_the_first_step(self):
        self.checkpoints.mkdir()
        for options, reason in (("ro", "Read-only file system"), ("nr_inodes=1", "No space left on device")):
            with self.subTest(options=options), Cluster() as cluster:
                cluster.start_coordinator()
                cluster.start_worker("a", slots=2, mount=("-t", "tmpfs", "-o", options, "none", self.checkpoints))
                message = self.refused(cluster, self.job(steps=20))
                self.assertIn(f"train.checkpoint.directory: cannot create {self.checkpoints}/.directory-identity", message)
                self.assertIn(reason, message)

    def test_a_job_that_asks_for_it_fails_if_a_checkpoint_does(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", env={"RINGMASTER_FAIL_POINTS": "checkpoint.write=error"})
            cluster.await_workers(1)
            cluster.start_worker("b")
            cluster.await_workers(2)
            job = cluster.run_job(self.job(workers=(1, 2), steps=ENDLESS, on_error="fail"), "FAILED")
            # Others could go on, and write; but the job has said that it does not want that.
            self.assertEqual(job["exit_code"], UNREADABLE)
            self.assertRegex(job["message"], r"the checkpoint of step \d+ could not be written, and train.checkpoint.on_error is fail: ")
            self.assertEqual(cluster.events(job["id"], "host.quarantined"), [])
            self.assertEqual(len(cluster.workers()), 2)

    def test_checkpoints_that_fail_show_while_they_do(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2, env={"RINGMASTER_FAIL_POINTS": "checkpoint.write=error"})
            job_id = cluster.submit(self.job(steps=ENDLESS))
            cluster.await_event(job_id, "checkpoint.failed")
            for command in (["status"], ["job", job_id], ["explain", job_id]):
                with self.subTest(command=command[0]):
                    self.assertRegex(" ".join(cluster.ringctl(*command).stdout.split()),
                                     f"checkpoints fail: rank 0 \\(.*a-0.*\\) after step [0-9]+: {self.checkpoints}/.*fail point checkpoint.write")
            watch = cluster.spawn("watch", [binary("ringctl"), f"--coordinator={cluster.address}", "watch", job_id])
            cluster.await_output(watch, "checkpoints fail: rank 0")
            # A stop is what was asked for, with or without one.
            self.assertEqual(cluster.ringctl("cancel", job_id).returncode, 0)
            cluster.await_job(job_id, "CANCELLED")

    def test_a_newest_checkpoint_that_cannot_be_read_is_not_passed_over(self):
        self.run_alone(self.job(steps=20))
        manifest = self.checkpoints / "step-000000020" / "checkpoint.json"
        good = manifest.read_bytes()
        manifest.unlink()
        manifest.mkdir()
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2)
            message = self.refused(cluster, self.job(steps=30))
            self.assertIn(f"the newest checkpoint cannot be read: {manifest} is not a regular file", message)
            manifest.rmdir()
            manifest.write_bytes(good)
            job = cluster.run_job(self.job(steps=30))
            self.assertIn("step-000000020", cluster.events(job["id"], "checkpoint.loaded")[0]["message"])

    @unittest.skipIf(mount_namespaces_unavailable() or namespaces_unavailable(),
                     mount_namespaces_unavailable() or namespaces_unavailable())
    def test_hosts_that_share_no_disk_write_their_own_checkpoints(self):
        self.checkpoints.mkdir()
        disks = [self.directory / "disk-0", self.directory / "disk-1"]
        for disk in disks:
            disk.mkdir()

        def run(steps):
            with Hosts(2) as hosts, Cluster() as cluster:
                cluster.start_coordinator(host=hosts[0])
                for index, host in enumerate(hosts):
                    cluster.start_worker(f"host{index}", slots=index + 1, host=host,
                                         mount=("--bind", disks[index], self.checkpoints))
                job = cluster.run_job(self.job(workers=3, steps=steps))

                def written():
                    events = cluster.events(job["id"], "checkpoint.written")
                    return {(event["worker"].split("-")[0], int(event["step"])) for event in events}

                # They may come a moment after the job's end.
                cluster.await_that("both hosts' checkpoints", lambda: {("host0", steps), ("host1", steps)} <= written())
                return job, written(), cluster.events(job["id"], "checkpoint.loaded")

        run(20)
        for disk in disks:
            self.assertEqual(steps_of(disk)[-1], 20)
        # A host that lost its disk takes part: all start from the other's.
        shutil.rmtree(disks[0])
        disks[0].mkdir()
        job, written, loaded = run(30)
        self.assertEqual(written, {("host0", 30), ("host1", 30)})
        self.assertEqual(int(job["figures"]["step"]), 30)
        self.assertEqual(len(loaded), 1)
        self.assertTrue(loaded[0]["worker"].startswith("host1"), loaded)
        self.assertIn("step-000000020", loaded[0]["message"])
        self.assertEqual(steps_of(disks[0]), [30])
        self.assertEqual(steps_of(disks[1]), [20, 30])

    @unittest.skipIf(namespaces_unavailable(), namespaces_unavailable())
    def test_hosts_that_share_a_disk_write_a_checkpoint_once(self):
        with Hosts(2) as hosts, Cluster() as cluster:
            cluster.start_coordinator(host=hosts[0])
            for index, host in enumerate(hosts):
                cluster.start_worker(f"host{index}", host=host)
            job = cluster.run_job(self.job(steps=20, every=0))
            # Another writer's event would be there before those of a second job, which the same workers run.
            cluster.await_event(cluster.run_job(self.job(steps=30, every=0))["id"], "checkpoint.written")
            written = cluster.events(job["id"], "checkpoint.written")
            self.assertEqual([int(event["step"]) for event in written], [20])
        self.assertEqual(steps_of(self.checkpoints), [20, 30])

    def test_a_worker_killed_while_it_writes_is_replaced_by_another(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", env={"RINGMASTER_FAIL_POINTS": "checkpoint.rename=crash@2"})
            cluster.await_workers(1)
            cluster.start_worker("b", slots=2)
            cluster.await_workers(3)
            job_id = cluster.submit(self.job(workers=(1, 3), steps=ENDLESS))
            cluster.await_that("a checkpoint of another writer", lambda: [
                event for event in cluster.events(job_id, "checkpoint.written") if event["worker"].startswith("b")])
            self.assertEqual(cluster.ringctl("cancel", job_id).returncode, 0)
            job = cluster.await_job(job_id, "CANCELLED")
            self.assertEqual(job["verdict"]["worker"], "a")
            self.assertEqual(cluster.events(job_id, "checkpoint.written")[0]["worker"], "a")
        last = int(job["figures"]["step"])
        self.assertEqual(steps_of(self.checkpoints)[-1], last)
        self.assertEqual(list(self.checkpoints.glob(".tmp-*")), [])
        lines = step_lines(self.checkpoints)
        self.assertEqual(lines, sorted(set(lines)))
        self.assertEqual(lines[-1], last)

    def test_a_writer_killed_after_the_last_step_leaves_its_checkpoint_to_the_others(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", env={"RINGMASTER_FAIL_POINTS": "checkpoint.rename=crash@1"})
            cluster.await_workers(1)
            cluster.start_worker("b", slots=2)
            cluster.await_workers(3)
            job = cluster.run_job(self.job(workers=3, steps=20, every=0))
            self.assertEqual(job["verdict"]["worker"], "a")
            written = cluster.events(job["id"], "checkpoint.written")
            self.assertEqual([(event["worker"][0], int(event["step"])) for event in written], [("b", 20)])
        self.assertEqual(steps_of(self.checkpoints), [20])
        self.assertEqual(list(self.checkpoints.glob(".tmp-*")), [])

    def test_what_was_due_at_a_step_in_which_a_member_died_is_made_at_the_next_one(self):
        """Also if the member wrote the figures, and whether or not a newcomer takes its place."""
        for victim, spare, point in (("c", False, "train.commit_send=crash@20"), ("a", False, "train.commit_send=crash@20"),
                                     ("a", True, "train.commit_send=crash@20"), ("a", True, "train.evaluate=crash@2"),
                                     ("c", False, "train.evaluate=crash@2"), ("a", True, "train.evaluated=crash@2"),
                                     ("a", False, "train.evaluated=crash@2")):
            directory = self.directory / f"{victim}-{spare}-{point}"
            with self.subTest(victim=victim, spare=spare, point=point), Cluster() as cluster:
                cluster.start_coordinator()
                for name in "abc":
                    cluster.start_worker(name, env={"RINGMASTER_FAIL_POINTS": point} if name == victim else None)
                    cluster.await_workers("abc".index(name) + 1)
                if spare:
                    cluster.start_worker("d")
                    cluster.await_workers(4)
                job = cluster.run_job(gpt_job(
                    self.text, (2, 3), steps=40, evaluate_every=10, sample={"prompt": "the", "bytes": 4},
                    checkpoint={"directory": str(directory), "every_steps": 20}))
                self.assertEqual(job["verdict"]["worker"], victim)
                self.assertEqual(len(job["members"]), 2 + spare)
                self.assertEqual(steps_of(directory), [20, 40])
                self.assertEqual(step_lines(directory), list(range(1, 41)))
                self.assertEqual(step_lines(directory, "evaluation"), [10, 20, 30, 40])
                self.assertEqual(step_lines(directory, "sample"), [10, 20, 30, 40])
                # The loss of a step goes with a member that has not told its part of it, unless the step is made again.
                lost = {line["step"] for line in lines_of(directory, "step") if line["loss"] is None}
                self.assertLessEqual(lost, {20} if "commit" in point else set())


if __name__ == "__main__":
    report.main()
