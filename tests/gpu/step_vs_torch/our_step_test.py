"""Tests that our side prints what models.py says. On a GPU, or with --config=cuda_emulated."""

import os
import subprocess
import tempfile
import unittest

from tests import report
from tests.gpu.step_vs_torch import kinds
from tests.gpu.step_vs_torch import side

PROGRAM = "tests/gpu/step_vs_torch/our_step"


def command(model, precision="fp32", batch=2):
    return [PROGRAM, f"--model={model}", f"--batch={batch}", "--steps=2", f"--precision={precision}"]


def run(arguments, text="", **environment):
    return subprocess.run(arguments, input=text, capture_output=True, text=True, check=False, env=dict(os.environ, **environment))


class OurStepTest(unittest.TestCase):
    def setUp(self):
        if not os.path.exists(PROGRAM):
            self.skipTest("built without CUDA")

    def serve(self, model, precision):
        with tempfile.NamedTemporaryFile() as log:
            ours = side.Side(command(model, precision), log.name)
            try:
                ready = ours.wait_for("ready", 50)
                rounds = [ours.ask("round", 50) for _ in range(2)]
                return ready, rounds, ours.ask("profile", 50), ours.end(50)
            except side.SideError as error:
                if not error.is_failure:
                    self.skipTest(str(error))
                raise
            finally:
                ours.kill()

    def test_each_model_is_timed_round_by_round(self):
        for model, precision in (("gpt-tiny", "bf16"), ("cnn", "fp32"), ("mlp", "tf32")):
            with self.subTest(model=model):
                ready, rounds, profile, end = self.serve(model, precision)
                self.assertEqual(ready["name"], "Ringmaster")
                self.assertIn("fp32 parameters", ready["settings"])
                # An update's time is told with the next step, so a round may have one of its neighbour's.
                self.assertTrue(all(0 < of["seconds"] < 50 and of["computed_seconds"] > 0 for of in rounds), rounds)
                self.check_profile(model, precision, profile)
                self.assertGreater(end["peak_memory_gib"], 0)
                # Near that of a guess: it trains, at a small rate.
                self.assertTrue(1 < end["loss"] < 8, end)

    def check_profile(self, model, precision, profile):
        """Times are not looked at: they may be the emulation's."""
        if "why" in profile:
            self.skipTest(profile["why"])
        self.assertEqual((profile["steps"], profile["lost"]), (3, 0))
        launches = {name: count for name, count, _ in profile["kernels"]}
        by_kind = kinds.by_kind(profile["kernels"], profile["steps"])
        self.assertTrue({"matmul", "loss", "optimizer", "copy"} <= by_kind.keys(), by_kind)
        self.assertNotIn("other", by_kind, launches)
        if model == "gpt-tiny":
            self.assertTrue({"attention", "norm", "elementwise"} <= by_kind.keys(), by_kind)
        # Forward, and two products backward, of each step; a row of the loss's products may be one launch or several.
        matmuls = sum(count for name, count in launches.items() if kinds.kind_of(name) == "matmul")
        self.assertGreaterEqual(matmuls, 3 * 3 * 2, (precision, launches))
        self.assertTrue(all(microseconds > 0 for _, _, microseconds in profile["kernels"]), profile)

    def test_an_unknown_line_is_a_failure(self):
        ended = run(command("gpt-tiny"), "rund\n")
        if ended.returncode == 2:
            self.skipTest(ended.stderr)
        self.assertEqual(ended.returncode, 1, ended.stderr)
        self.assertIn("error: 'rund' is no command; a line is 'round' or 'profile'", ended.stderr)

    def test_flags_that_are_wrong_are_a_failure(self):
        ended = run(command("resnet"))
        self.assertEqual(ended.returncode, 1)
        self.assertIn("--model", ended.stderr)

    def test_without_a_gpu_it_says_so_in_a_line(self):
        ended = run(command("mlp"), RINGMASTER_EMULATED_CUDA_DEVICES="0", CUDA_VISIBLE_DEVICES="")
        self.assertEqual((ended.returncode, ended.stdout), (2, ""), ended.stderr)
        self.assertRegex(ended.stderr, r"\Aerror: [^\n]*\n\Z")


if __name__ == "__main__":
    report.main()
