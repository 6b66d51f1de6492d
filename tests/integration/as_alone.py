"""What tests of jobs that give way share: jobs long enough to be found on their way, compared with the same job alone."""

import json
import unittest

from tests.integration import jobs

# Some seconds of training, so that another job finds it on its way.
STEPS = 500
MODEL = {"mlp": {"window": 16, "embedding_dim": 16, "hidden_dim": 256, "hidden_layers": 2}}


def trained_job(cluster, name, priority=0, steps=STEPS, queue="default"):
    text = jobs.train_job(MODEL, {"synthetic": {"samples": 16384}}, 2, name=name, steps=steps, global_batch=256,
                          checkpoint={"directory": str(cluster.directory / name)})
    return f"priority: {priority}\nqueue: {queue}\n{text}"


class AsAloneTest(unittest.TestCase):
    """`alone` is the same job, run by itself first."""

    alone = None

    def await_suspended(self, cluster, job_id):
        return cluster.await_event(job_id, "job.suspended")[0]

    def succeeded(self, cluster, *command):
        result = cluster.ringctl(*command)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def losses(self, cluster, name):
        """The loss of each step; that each was made once."""
        entries = [json.loads(line) for line in open(cluster.directory / name / "metrics.jsonl", encoding="utf-8")]
        steps = [(entry["step"], entry["loss"]) for entry in entries if entry["kind"] == "step"]
        self.assertEqual([step for step, _ in steps], list(range(1, STEPS + 1)))
        return [loss for _, loss in steps]

    def assert_as_alone(self, cluster, name, job):
        self.assertEqual(job["parameters_hash"], self.alone["parameters_hash"])
        for loss, alone in zip(self.losses(cluster, name), self.losses(cluster, "alone")):
            self.assertAlmostEqual(loss, alone, delta=1e-3)
        self.assertEqual(cluster.events(job["id"], "job.rolled_back"), [])
