"""Real workers reduce gradients by costs that they measured, or as the job says; and they name the rank that keeps others waiting."""

import pathlib
import tempfile
import unittest

from tests import report
from tests.integration.cluster import Cluster, synthetic_job
from tests.integration.data_files import write_text
from tests.integration.jobs import gpt_job

ENDLESS = 1_000_000


def seconds(duration):
    """Seconds of a google.protobuf.Duration in JSON: "1.5s"."""
    return float(duration.rstrip("s"))


class CollectiveTest(unittest.TestCase):
    def run_on_three(self, **train):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=3)
            return cluster.run_job(synthetic_job(workers_min=3, workers_max=3, **train))

    def test_costs_are_measured_and_decide(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            worker = cluster.start_worker("a", slots=3)
            job = cluster.run_job(synthetic_job(workers_min=3, workers_max=3))
            figures = job["figures"]
            self.assertTrue(figures["all_reduce_algorithms"])
            self.assertGreater(seconds(figures["all_reduce_duration"]), 0)
            self.assertGreater(seconds(figures["predicted_all_reduce_duration"]), 0)
            # One process of a host measures at a time, even if the other belongs to another test.
            self.assertRegex(worker.output(), r" costs\.(measured|left_to_another|not_measured) ")
            shown = cluster.ringctl("job", job["id"]).stdout
            self.assertRegex(shown, r"all-reduce [a-z_, ]+, [0-9.]+[a-z]+ a step, predicted [0-9.]+[a-z]+")

    def test_the_job_decides_how_its_gradients_are_reduced(self):
        whole = self.run_on_three(collective="{algorithm: ring}")["figures"]
        self.assertEqual(whole["all_reduce_algorithms"], ["COLLECTIVE_ALGORITHM_RING"])
        half = self.run_on_three(collective="{algorithm: direct, transport: tcp, wire: bfloat16}")["figures"]
        self.assertEqual(half["all_reduce_algorithms"], ["COLLECTIVE_ALGORITHM_DIRECT"])
        self.assertLess(int(half["payload_sent_bytes"]), 0.7 * int(whole["payload_sent_bytes"]))
        self.assertAlmostEqual(half["loss"], whole["loss"], delta=0.05 * whole["loss"])

    def test_a_wrong_algorithm_is_one_clear_line(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            path = cluster.directory / "wrong.yaml"
            path.write_text(synthetic_job(collective="{algorithm: ringg}"))
            result = cluster.ringctl("submit", str(path))
        self.assertEqual(result.returncode, 2)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        for words in ("train.collective.algorithm", "ringg", "halving_doubling"):
            self.assertIn(words, result.stderr)

    def test_the_rank_that_the_others_wait_for_is_named(self):
        # After every step rank 0 writes a text, which takes many times as long as the step.
        with tempfile.TemporaryDirectory() as scratch, Cluster() as cluster:
            text = write_text(pathlib.Path(scratch) / "text")
            cluster.start_coordinator()
            cluster.start_worker("a", slots=3)
            job_id = cluster.submit(gpt_job(text, workers=3, steps=ENDLESS, evaluate_every=1, evaluation_samples=1,
                                            sample={"prompt": "the ring ", "bytes": 3000}))

            def straggler():
                job = cluster.job(job_id)
                found = job.get("straggler")
                return found if found and found["member"]["worker"] == job["members"][0]["worker"] else None

            found = cluster.await_that("rank 0 is the straggler", straggler)
            self.assertGreater(found["wait_ratio"], 0.1)
            self.assertLessEqual(found["wait_ratio"], 1)
            line = cluster.await_that("its line", lambda: [
                line for line in cluster.ringctl("job", job_id).stdout.splitlines() if line.startswith("straggler rank 0 (")])
            self.assertRegex(line[0], r": the others wait for it \d+% of the time$")
            cluster.ringctl("cancel", job_id)
            cluster.await_job(job_id, "CANCELLED")


if __name__ == "__main__":
    report.main()
