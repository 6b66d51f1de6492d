"""What tests of jobs that give way share: jobs long enough to be found on their way, compared with the same job alone."""

import json
import math
import shutil
import signal
import unittest

from tests.integration import jobs

# A job lasts so long by itself, at least, so that another one finds it on its way: its steps are as many as this machine makes in that
# time while it has nothing else to do.
LEAST_SECONDS = 2
MODEL = {"mlp": {"window": 16, "embedding_dim": 16, "hidden_dim": 256, "hidden_layers": 2}}


class AsAloneTest(unittest.TestCase):
    """`alone` is the same job, run by itself first, of `steps` steps."""

    alone = None
    steps = 250

    def trained_job(self, cluster, name, priority=0, steps=None, queue="default"):
        text = jobs.train_job(MODEL, {"synthetic": {"samples": 16384}}, 2, name=name, steps=steps or self.steps, global_batch=256,
                              checkpoint={"directory": str(cluster.directory / name)})
        return f"priority: {priority}\nqueue: {queue}\n{text}"

    def start(self, cluster, slots, *flags):
        """Starts a coordinator with these flags and a worker process with so many slots, and trains `alone`; returns the coordinator."""
        coordinator = cluster.start_coordinator(*flags)
        cluster.start_worker("w", slots=slots)
        cluster.await_workers(slots)
        self.train_alone(cluster)
        return coordinator

    def restart(self, cluster, coordinator):
        """Kills the coordinator, and starts another one that reads its state."""
        workers = len(cluster.workers())
        coordinator.signal(signal.SIGKILL)
        coordinator.wait()
        cluster.start_coordinator(listen=cluster.address)
        cluster.await_workers(workers)

    def train_alone(self, cluster):
        while True:
            self.alone = cluster.run_job(self.trained_job(cluster, "alone"))
            seconds = sorted(entry["total_seconds"] for entry in self.step_entries(cluster, "alone"))
            undisturbed = seconds[len(seconds) // 10]
            if self.steps * undisturbed >= LEAST_SECONDS:
                return
            shutil.rmtree(cluster.directory / "alone")
            self.steps = math.ceil(1.2 * LEAST_SECONDS / undisturbed)

    def await_suspended(self, cluster, job_id):
        return cluster.await_event(job_id, "job.suspended")[0]

    def succeeded(self, cluster, *command):
        result = cluster.ringctl(*command)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def step_entries(self, cluster, name):
        entries = [json.loads(line) for line in open(cluster.directory / name / "metrics.jsonl", encoding="utf-8")]
        return [entry for entry in entries if entry["kind"] == "step"]

    def losses(self, cluster, name):
        """The loss of each step, and that each was made once; None of one that was complete as a halt interrupted it."""
        steps = [(entry["step"], entry["loss"]) for entry in self.step_entries(cluster, name)]
        self.assertEqual([step for step, _ in steps], list(range(1, len(steps) + 1)))
        return [loss for _, loss in steps]

    def assert_losses_as_alone(self, cluster, name):
        """As far as both trained."""
        for loss, alone in zip(self.losses(cluster, name), self.losses(cluster, "alone")):
            if loss is not None:
                self.assertAlmostEqual(loss, alone, delta=1e-3)

    def assert_as_alone(self, cluster, name, job):
        self.assertEqual(job["parameters_hash"], self.alone["parameters_hash"])
        self.assertEqual(len(self.losses(cluster, name)), self.steps)
        self.assert_losses_as_alone(cluster, name)
        self.assertEqual(cluster.events(job["id"], "job.rolled_back"), [])
