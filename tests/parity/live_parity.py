"""Compares a program's models with PyTorch's on cases made here and now, larger than the golden files.

  /usr/bin/python3 -m tests.parity.live_parity PROGRAM [unittest's arguments]
  PROGRAM --case FILE.safetensors --precision fp32|bf16|fp64 --out OUT.safetensors

The program runs a case (cases.py says what is in the file) and writes logits (not of images), loss [1], grad/NAME, losses [10] and after/NAME
under those names, as F32 or F64. PARITY_DUMP names the program too, and PARITY_SEED another seed for all cases.

Limits, against PyTorch in double; errors are relative in the L2 norm, losses' absolute:
  fp64   1e-9: the same function to rounding. Catches what the tolerances of the others would hide.
  fp32   logits and gradients 1e-5, losses 2e-5, parameters after 10 steps 1e-4; and twice PyTorch's own error where that
         is more.
  bf16   1.25 times the error of PyTorch's own autocast for all tensors of a kind together (the root of their errors'
         mean square); for a single tensor, whose error is one throw of a die, twice PyTorch's, or twice the median
         error of its kind, or 2^-8, what rounding an operand to bfloat16 can do. Losses 0.01.
"""

import functools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import unittest

from tests import report

try:
    import torch
    import torchvision
    from tests.parity import cases
    from tests.parity import safetensors_file
    from tests.parity import torch_models
    MISSING = None
except ImportError as error:
    MISSING = f"{error} (Debian 12: python3-torch and python3-torchvision)"

BF16_FLOOR = 2.0**-8
PATIENCE = 300.0

# AdamW's usual epsilon of 1e-8, which the golden files have, is about the rounding error of these gradients: where an
# element's gradient is nothing else, its steps are noise. This one keeps it small.
_ADAMW = {**cases.ADAMW, "epsilon": 1e-6} if not MISSING else {}
_GPT = {"vocabulary": 64, "window": 16, "layers": 2, "heads": 2, "width": 16}
_LLAMA = {"vocabulary": 64, "window": 16, "layers": 2, "heads": 4, "kv_heads": 2, "width": 32, "hidden": 40, "tied": 0}
_BERT = {"vocabulary": 64, "window": 24, "layers": 2, "heads": 2, "width": 32, "hidden": 40, "roberta": 0, "padding": 0,
         "separator": 5, "mask": 63, "norm_epsilon": 1e-5, "classes": 0, "masked_share": 0.15}
_CNN = {"height": 28, "width": 28, "channels": 1, "filters": [8, 16], "hidden_dim": 32, "classes": 10}
# Norms over small batches make what rounding adds grow with each step, the more so the longer the steps are.
_SLOW_SGD = {**cases.SGD, "learning_rate": 1e-5} if not MISSING else {}
_RESNET = {"height": 96, "width": 96, "channels": 3, "filters": 8, "classes": 10}
_MLP = {"window": 8, "embedding_dim": 16, "hidden_layers": 1, "hidden_dim": 64}


def _limits(name, precision, torch_error):
    """The largest error of `name` that passes."""
    if precision == "fp64":
        return 1e-9
    is_loss = name in ("loss", "losses")
    is_after = name.startswith("after/")
    if precision == "fp32":
        return max(2e-5 if is_loss else 1e-4 if is_after else 1e-5, 2 * torch_error[name])
    if is_loss:
        return max(1.25 * torch_error[name], 0.01)
    usual = statistics.median(value for key, value in torch_error.items() if _kind(key) == _kind(name))
    return max(2 * torch_error[name], 2 * usual, BF16_FLOOR)


def _kind(name):
    return name.split("/")[0]


def _mean_square_root(errors, kind):
    squares = [error * error for name, error in errors.items() if _kind(name) == kind]
    return (sum(squares) / len(squares)) ** 0.5


def complaints(result, expected, precision, torch_error):
    """One line for each tensor that is missing, or further off than it may be."""
    lines = []
    for name in sorted(expected.keys() - result.keys()):
        lines.append(f"{name} is missing")
    shared = {name: value for name, value in expected.items() if name in result}
    errors = cases.errors_of(result, shared)
    if precision == "bf16":
        for kind in sorted({_kind(name) for name in errors} - {"loss", "losses"}):
            ours, theirs = _mean_square_root(errors, kind), _mean_square_root(torch_error, kind)
            if not ours <= 1.25 * theirs:
                lines.append(f"{kind}: off by {ours:.2e} together (PyTorch: {theirs:.2e})")
    for name, error in errors.items():
        limit = _limits(name, precision, torch_error)
        if not error <= limit:
            lines.append(f"{name}: off by {error:.2e}, may be {limit:.2e} (PyTorch: {torch_error.get(name, 0.0):.2e})")
    return lines


@functools.lru_cache(maxsize=None)
def _program():
    path = os.environ.get("PARITY_DUMP")
    return str(pathlib.Path(path).resolve()) if path else None


def _run_program(case, precision):
    with tempfile.TemporaryDirectory() as directory:
        case_path, out_path = f"{directory}/case.safetensors", f"{directory}/out.safetensors"
        case.write(case_path)
        command = [_program(), "--case", case_path, "--precision", precision, "--out", out_path]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        if ended.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: exit status {ended.returncode}\n{ended.stdout}{ended.stderr}")
        return safetensors_file.read(out_path)[0]


@unittest.skipIf(MISSING, f"needs PyTorch: {MISSING}")
class LiveParityTest(unittest.TestCase):
    def compare(self, model, settings, batch, optimizer=None):
        if _program() is None:
            self.skipTest("no program to compare: give its path, or set PARITY_DUMP")
        seed = int(os.environ.get("PARITY_SEED", "7"))
        case = cases.make_case(model, settings, batch, optimizer or _ADAMW, seed)
        expected = cases.run(case, "fp64")
        del expected["norms"]
        if model in ("cnn", "bert", "resnet"):
            del expected["logits"]  # the program shows logits of models that continue tokens
        for precision in ("fp64", "fp32", "bf16"):
            with self.subTest(precision=precision, seed=seed):
                torch_error = {} if precision == "fp64" else cases.errors_of(cases.run(case, precision), expected)
                found = complaints(_run_program(case, precision), expected, precision, torch_error)
                if found:
                    self.fail(f"{case.config}\n  " + "\n  ".join(found))

    def test_a_tiny_gpt(self):
        self.compare("gpt", _GPT, batch=4)

    def test_a_gpt_of_odd_sizes(self):
        self.compare("gpt", {"vocabulary": 257, "window": 33, "layers": 1, "heads": 3, "width": 51}, batch=2)

    def test_a_gpt_with_one_head_and_one_sample(self):
        self.compare("gpt", {**_GPT, "heads": 1}, batch=1)

    def test_a_gpt_that_sees_two_tokens(self):
        self.compare("gpt", {**_GPT, "window": 2}, batch=16)

    def test_a_gpt_of_128_wide_and_4_layers(self):
        self.compare("gpt", {"vocabulary": 1000, "window": 64, "layers": 4, "heads": 4, "width": 128}, batch=4)

    def test_a_gpt_whose_gradient_is_clipped(self):
        self.compare("gpt", _GPT, batch=4, optimizer={**_ADAMW, "clip_norm": 1.0})

    def test_a_llama_whose_heads_share_keys(self):
        self.compare("llama", _LLAMA, batch=4)

    def test_a_tied_llama_of_odd_sizes(self):
        self.compare("llama", {"vocabulary": 257, "window": 33, "layers": 1, "heads": 3, "kv_heads": 3, "width": 54, "hidden": 77,
                               "tied": 1}, batch=2)

    def test_a_llama_of_128_wide_and_4_layers(self):
        self.compare("llama", {"vocabulary": 1000, "window": 64, "layers": 4, "heads": 4, "kv_heads": 1, "width": 128,
                               "hidden": 344, "tied": 0}, batch=4)

    def test_a_bert_of_masked_tokens(self):
        self.compare("bert", _BERT, batch=12)

    def test_a_bert_of_classes(self):
        self.compare("bert", {**_BERT, "classes": 3}, batch=6)

    def test_a_roberta_of_masked_tokens(self):
        self.compare("bert", {**_BERT, "vocabulary": 257, "window": 33, "heads": 3, "width": 51, "hidden": 77, "roberta": 1,
                              "padding": 1, "separator": 0, "mask": 256}, batch=12)

    def test_a_roberta_of_classes_of_128_wide_and_4_layers(self):
        self.compare("bert", {**_BERT, "vocabulary": 1000, "window": 70, "layers": 4, "heads": 4, "width": 128, "hidden": 512,
                              "roberta": 1, "padding": 1, "separator": 0, "mask": 999, "classes": 5}, batch=4)

    def test_a_cnn_on_grey_images(self):
        self.compare("cnn", _CNN, batch=8)

    def test_a_cnn_on_colour_images_of_odd_channels(self):
        self.compare("cnn", {"height": 16, "width": 24, "channels": 3, "filters": [5, 7, 9], "hidden_dim": 11, "classes": 4}, batch=3)

    def test_a_cnn_with_one_sample(self):
        self.compare("cnn", {**_CNN, "filters": [4]}, batch=1)

    def test_a_cnn_of_the_default_size(self):
        self.compare("cnn", {**_CNN, "filters": [32, 64], "hidden_dim": 128}, batch=16)

    def test_a_resnet_of_basic_blocks(self):
        self.compare("resnet", {**_RESNET, "depth": 18}, batch=8, optimizer=_SLOW_SGD)

    def test_a_resnet_of_bottlenecks(self):
        self.compare("resnet", {**_RESNET, "depth": 14, "height": 48, "width": 40, "filters": 4}, batch=6, optimizer=_SLOW_SGD)

    def test_a_resnet_of_grey_images_of_odd_sizes(self):
        self.compare("resnet", {"depth": 10, "height": 67, "width": 99, "channels": 1, "filters": 5, "classes": 3}, batch=5,
                     optimizer={**_SLOW_SGD, "clip_norm": 0.5})

    def test_an_mlp(self):
        self.compare("mlp", _MLP, batch=16)

    def test_an_mlp_of_odd_sizes(self):
        self.compare("mlp", {"window": 5, "embedding_dim": 7, "hidden_layers": 3, "hidden_dim": 37}, batch=3)

    def test_an_mlp_with_sgd(self):
        self.compare("mlp", _MLP, batch=16, optimizer=cases.SGD)

    def test_an_mlp_with_sgd_whose_gradient_is_clipped(self):
        self.compare("mlp", _MLP, batch=16, optimizer={**cases.SGD, "clip_norm": 0.1})


@unittest.skipIf(MISSING, f"needs PyTorch: {MISSING}")
class ComplaintsTest(unittest.TestCase):
    """PyTorch's own results stand in for a program's."""

    def setUp(self):
        self.case = cases.make_case("gpt", _GPT, 2, cases.ADAMW, seed=1)
        self.expected = cases.run(self.case, "fp64")

    def test_pytorch_passes(self):
        for precision in ("fp64", "fp32", "bf16"):
            result = cases.run(self.case, precision)
            self.assertEqual(complaints(result, self.expected, precision, cases.errors_of(result, self.expected)), [])

    def test_each_tensor_that_is_a_little_off_is_named(self):
        for precision, factor in (("fp64", 1 + 1e-8), ("fp32", 1 + 2e-4), ("bf16", 3)):
            torch_error = cases.errors_of(cases.run(self.case, precision), self.expected)
            for name in self.expected.keys() - {"norms"}:
                lines = complaints({**self.expected, name: self.expected[name] * factor}, self.expected, precision, torch_error)
                named = {line.split(":")[0] for line in lines}
                self.assertIn(name, named)
                self.assertLessEqual(named, {name, _kind(name)})

    def test_what_is_missing_or_not_a_number_is_named(self):
        result = dict(self.expected)
        del result["logits"]
        result["losses"] = result["losses"] * float("nan")
        lines = complaints(result, self.expected, "bf16", self.expected.fromkeys(self.expected, 0.0))
        self.assertEqual([line.split()[0] for line in lines], ["logits", "losses:"])

    def test_a_case_file_comes_back_as_it_was(self):
        with tempfile.TemporaryDirectory() as directory:
            path = f"{directory}/case.safetensors"
            self.case.write(path)
            read = cases.Case.read(path)
        self.assertEqual(read.config, self.case.config)
        for name, value in self.case.tensors().items():
            self.assertEqual(read.tensors()[name].dtype, value.dtype)
            self.assertTrue((read.tensors()[name] == value).all(), name)


@unittest.skipIf(MISSING, f"needs PyTorch: {MISSING}")
class ResnetTest(unittest.TestCase):
    def test_torchvisions_parameters_load_and_give_its_logits(self):
        for depth in (18, 50):
            ours, theirs = torch_models.Resnet(depth, classes=7), getattr(torchvision.models, f"resnet{depth}")(num_classes=7)
            ours.load_state_dict(theirs.state_dict())
            pixels = torch.randint(256, (4, 48, 40, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
            images = (pixels.double() / 255 - torch.tensor(ours.MEAN)) / torch.tensor(ours.DEVIATION)
            expected = theirs.double()(images.permute(0, 3, 1, 2))
            self.assertLess((ours.double()(pixels) - expected).norm() / expected.norm(), 1e-5, depth)


if __name__ == "__main__":
    if len(sys.argv) > 1 and os.path.isfile(sys.argv[1]):
        os.environ["PARITY_DUMP"] = sys.argv.pop(1)
    report.main()
