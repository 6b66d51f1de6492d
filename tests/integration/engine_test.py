"""Whole training runs of each model, with real processes: they learn, and their reports are right."""

import json
import math
import pathlib

from tests import report
from tests.integration.cluster import Cluster
from tests.integration.data_files import TextTest, token_chain, write_images, write_pictures, write_tokens
from tests.integration.jobs import TINY_CNN, TINY_GPT, cnn_job, gpt_job, train_job

# A model that knows only each letter's frequency has about 2.9.
LEARNT_TEXT = 2.8
UNTRAINED_TEXT = math.log(256)


def seconds(duration):
    """Seconds of a google.protobuf.Duration in JSON: "1.5s"."""
    return float(duration.rstrip("s"))


def metrics(directory, kind="step"):
    """The lines of metrics.jsonl of one kind."""
    lines = (pathlib.Path(directory) / "metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["kind"] == kind]


class EngineTest(TextTest):
    def run_alone(self, job, slots):
        """Runs the job on a cluster of its own; returns it."""
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=slots)
            return cluster.run_job(job)

    def test_gpt_on_three_workers_learns_and_reports(self):
        steps, warmup, rate = 60, 10, 0.01
        checkpoints = self.directory / "checkpoints"
        job_text = gpt_job(
            self.text, workers=3, gpt={"dropout": 0.1}, steps=steps, micro_batch=3, evaluate_every=20,
            evaluation_samples=32, sample={"prompt": "the ring ", "bytes": 40}, checkpoint={"directory": str(checkpoints)},
            collective={"algorithm": "direct"},  # others send more, for less time
            optimizer={"adamw": {"learning_rate": rate, "clip_norm": 1.0, "decay_matrices_only": True},
                       "schedule": {"kind": "cosine", "warmup_steps": warmup, "final_ratio": 0.2}})
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=3)
            job = cluster.run_job(job_text)
            self.check_learning(job, steps)
            self.check_figures(job["figures"], rate * 0.2)
            self.check_sample(job["sample"], steps)
            samples = cluster.await_event(job["id"], "job.sample")
            self.assertEqual([int(event["step"]) for event in samples], [20, 40, 60])
        self.check_schedule(metrics(checkpoints), rate, warmup, steps)

    def check_learning(self, job, steps):
        figures = job["figures"]
        self.assertEqual(int(figures["step"]), steps)
        self.assertLess(figures["loss"], LEARNT_TEXT)
        self.assertLess(figures["evaluation_loss"], LEARNT_TEXT)
        self.assertEqual(int(figures["evaluation_step"]), steps)
        self.assertGreater(figures["evaluation_accuracy"], 0.2)
        self.assertGreater(figures["gradient_norm"], 0)

    def check_figures(self, figures, last_rate):
        window = TINY_GPT["window"]
        self.assertGreater(figures["targets_per_second"], 0)
        self.assertAlmostEqual(figures["targets_per_second"] / figures["samples_per_second"], window, places=3)
        self.assertGreater(figures["model_flops_utilization"], 0)
        self.assertAlmostEqual(figures["learning_rate"], last_rate, places=9)
        phases = {name: seconds(duration) for name, duration in figures["phases"].items()}
        for name in ("forward", "backward", "optimizer"):
            self.assertGreater(phases[name], 0, phases)
        self.assertGreater(seconds(figures["step_duration"]), 0)
        # Beyond the ring all-reduce there are only the commit records and the evaluations' sums.
        ratio = int(figures["payload_sent_bytes"]) / int(figures["payload_theory_bytes"])
        self.assertGreater(ratio, 0.99)
        self.assertLess(ratio, 1.05)

    def check_sample(self, sample, steps):
        self.assertEqual(int(sample["step"]), steps)
        self.assertEqual(sample["prompt"], "the ring ")
        self.assertGreaterEqual(len(sample["text"].encode()), 40)

    def check_schedule(self, lines, rate, warmup, steps):
        self.assertEqual([line["step"] for line in lines], list(range(1, steps + 1)))
        self.assertGreater(lines[0]["loss"], 0.9 * UNTRAINED_TEXT)
        for line in lines:
            falling = (1 + math.cos(math.pi * max(0, line["step"] - warmup) / (steps - warmup))) / 2
            expected = rate * min(1, line["step"] / warmup) * (0.2 + 0.8 * falling)
            self.assertAlmostEqual(line["learning_rate"], expected, places=9, msg=line)
            self.assertEqual(line["world_size"], 3)

    def test_what_is_learnt_does_not_depend_on_the_number_of_workers(self):
        # Dropout depends on the sample, and the gradient is the mean over the global batch, however it is cut.
        losses = [
            self.run_alone(gpt_job(self.text, workers=workers, gpt={"dropout": 0.2}, steps=30, micro_batch=micro_batch),
                           workers)["figures"]["evaluation_loss"]
            for workers, micro_batch in ((1, 0), (1, 5), (3, 3))
        ]
        for loss in losses[1:]:
            self.assertAlmostEqual(loss, losses[0], delta=2e-3, msg=losses)

    def test_survivors_of_a_crash_learn_the_same(self):
        job_text = gpt_job(self.text, workers=(1, 3), gpt={"dropout": 0.1}, steps=40, micro_batch=5)
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2)
            cluster.start_worker("b", env={"RINGMASTER_FAIL_POINTS": "train.reduced=crash@15"})
            cluster.await_workers(3)
            job = cluster.run_job(job_text)
        self.assertEqual(len(job["members"]), 2)
        self.assertEqual(job["verdict"]["worker"], "b")
        undisturbed = self.run_alone(job_text, 1)
        self.assertAlmostEqual(job["figures"]["evaluation_loss"], undisturbed["figures"]["evaluation_loss"], delta=2e-3)

    def test_dropout_has_an_effect(self):
        losses = [self.run_alone(gpt_job(self.text, gpt={"dropout": rate}, steps=30), 1)["figures"]["evaluation_loss"]
                  for rate in (0, 0.5)]
        self.assertGreater(losses[1], losses[0] + 0.01)

    def test_bfloat16_trains_nearly_as_float32_does(self):
        losses = [
            self.run_alone(gpt_job(self.text, workers=2, steps=40, precision=precision), 2)["figures"]["evaluation_loss"]
            for precision in ("float32", "bfloat16")
        ]
        self.assertLess(losses[1], LEARNT_TEXT)
        self.assertNotEqual(losses[1], losses[0])
        self.assertAlmostEqual(losses[1], losses[0], delta=0.1)

    def test_gpt_learns_from_token_files(self):
        vocabulary = 64
        train = write_tokens(self.directory / "train.bin", token_chain(12000, vocabulary))
        evaluation = write_tokens(self.directory / "eval.bin", token_chain(2000, vocabulary, seed=2), header=False)
        model = {"gpt": {**TINY_GPT, "vocabulary": vocabulary}}
        data = {"tokens": {"path": str(train), "evaluation_path": str(evaluation)}}
        job = self.run_alone(train_job(model, data, workers=2, steps=120, optimizer={"adamw": {"learning_rate": 0.01}}), 2)
        # Seven in eight tokens follow from the one before.
        self.assertGreater(job["figures"]["evaluation_accuracy"], 0.7)

    def test_sgd_with_momentum_learns(self):
        job = self.run_alone(gpt_job(self.text, workers=2, steps=60, optimizer={
            "sgd": {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True, "clip_norm": 1.0}}), 2)
        self.assertLess(job["figures"]["evaluation_loss"], 3.5)

    def test_cnn_learns_to_tell_images_apart(self):
        images, labels = write_images(self.directory, count=640)
        held_out = write_images(self.directory, prefix="test", count=100, seed=2, compress=True)
        job = self.run_alone(cnn_job(
            images, labels, workers=2, steps=100,
            data={"evaluation_images": str(held_out[0]), "evaluation_labels": str(held_out[1])}), 2)
        self.assertGreater(job["figures"]["evaluation_accuracy"], 0.95)
        self.assertLess(job["figures"]["loss"], 0.5)

    def test_cnn_learns_to_tell_pictures_apart(self):
        folder = {"path": str(write_pictures(self.directory / "train", count=640)),
                  "evaluation_path": str(write_pictures(self.directory / "test", count=100, seed=2)),
                  "crop_area": 1, "evaluation_crop": 1, "flip": False, "decode_threads": 2}
        job = self.run_alone(train_job({"cnn": TINY_CNN}, {"image_folder": folder}, workers=2, steps=100, evaluate_every=50), 2)
        self.assertGreater(job["figures"]["evaluation_accuracy"], 0.95)
        self.assertGreater(job["figures"]["evaluation_macro_f1"], 0.95)
        self.assertGreaterEqual(job["figures"]["evaluation_top5_accuracy"], job["figures"]["evaluation_accuracy"])


if __name__ == "__main__":
    report.main()
