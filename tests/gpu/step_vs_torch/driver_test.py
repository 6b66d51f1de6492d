"""The driver with sides that are scripts. Nothing here needs PyTorch or a GPU, nor depends on how fast anything is."""

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from tests import report
from tests.gpu import benchmarks
from tests.gpu.step_vs_torch import driver
from tests.gpu.step_vs_torch import kinds
from tests.gpu.step_vs_torch import models
from tests.gpu.step_vs_torch import torch_step

# A side whose rounds take the time that its variant names, and which records each of its turns.
FAKE = """
import json, os, sys
name, turns, seconds = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
variant = next((word.split("=")[1] for word in sys.argv if word.startswith("--compile=")), "")
assert any(word.startswith("--batch=") for word in sys.argv) and "--precision=bf16" in sys.argv, sys.argv
def say(**answer):
    print("a log line")
    print(json.dumps(answer), flush=True)
if seconds.get("ready" + variant) == "cannot":
    sys.exit(print("error: no PyTorch here", file=sys.stderr) or 2)
if seconds.get("ready" + variant) == "hangs":
    sys.stdin.read()
say(ready={"name": name, "settings": variant})
count = 0
for line in sys.stdin:
    if line == "profile\\n":
        say(profile=seconds.get("profile", {"steps": 2, "kernels": [["nvjet", 4, 3000.0], ["Memset (Device)", 2, 500.0]]}))
        continue
    count += 1
    with open(turns, "a") as file:
        file.write(name + variant + "\\n")
    if count == seconds.get("dies"):
        sys.exit("error: out of memory")
    computed = {"computed_seconds": seconds["computed"]} if "computed" in seconds else {}
    say(round={"seconds": seconds.get(variant, 1.0), **computed})
say(end={"peak_memory_gib": 50.0, "loss": 2.0})
"""
FAST_TORCH = {"default": 2.0, "max-autotune": 1.0}


class DriverTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        (self.directory / "fake.py").write_text(FAKE)
        self.turns = self.directory / "turns"

    def side(self, name, seconds):
        return f"{sys.executable} {self.directory}/fake.py {name} {self.turns} '{json.dumps(seconds)}'"

    def run_driver(self, ours, torch, *arguments):
        output = io.StringIO()
        sides = [f"--torch={self.side('torch', torch)}"] + ([f"--ours={self.side('ours', ours)}"] if ours is not None else [])
        with contextlib.redirect_stdout(output):
            status = driver.main([*sides, "--gpu=NVIDIA H200", f"--out={self.directory}", "--models", "cnn", "--budget=400", *arguments])
        rows = benchmarks.rows_of(output.getvalue().splitlines())
        return status, {row.what.partition(": ")[2]: row for row in rows}, rows

    def test_both_take_turns_and_the_faster_pytorch_goes_on(self):
        status, rows, _ = self.run_driver({"": 0.5, "computed": 0.45}, FAST_TORCH, "--rounds=5")
        self.assertEqual(status, 0)
        cnn = models.MODELS["cnn"]
        self.assertEqual(rows[""].ours, cnn.steps * cnn.batch / 0.5)
        self.assertEqual(rows[""].peer, cnn.steps * cnn.batch / 1.0)
        self.assertIn("5 rounds of torch (max-autotune)", rows[""].note)
        self.assertEqual((rows["step"].ours, rows["step"].peer), (2.5, 5.0))
        self.assertEqual((rows["peak memory"].ours, rows["matmul kernels"].peer), (50.0, 1.5))
        self.assertAlmostEqual(rows["GPU waits for the host"].ours, 10.0)
        self.assertIsNone(rows["GPU waits for the host"].peer)
        self.assertEqual((rows["copy kernels"].ours, rows["all kernels and copies"].ours), (0.25, 1.75))
        kernels = json.loads((self.directory / "kernels-pytorch-cnn.json").read_text())
        self.assertEqual(kernels["kernels"][0], ["nvjet", 4, 3000.0])
        self.assertAlmostEqual(rows["model FLOP utilisation"].peer, 100 * cnn.flops * cnn.steps * cnn.batch / 989.4e12, places=3)
        self.assertEqual(self.turns.read_text().split(),
                         ["torchdefault"] * 2 + ["torchmax-autotune"] * 2 + ["torchmax-autotune", "ours"] * 5)

    def test_the_default_goes_on_where_it_is_faster(self):
        _, rows, _ = self.run_driver({"": 0.5}, {"default": 1.0, "max-autotune": 2.0}, "--rounds=5")
        self.assertIn("5 rounds of torch (default)", rows[""].note)
        self.assertEqual(rows["step"].peer, 5.0)

    def test_a_slow_search_of_pytorch_costs_its_figure_and_nothing_else(self):
        status, rows, _ = self.run_driver({"": 0.5}, {"default": 1.0, "readymax-autotune": "cannot"})
        self.assertEqual(status, 0)
        self.assertIn("max-autotune: PyTorch: exit status 2: error: no PyTorch here", rows[""].note)
        self.assertEqual(rows["step"].peer, 5.0)

    def test_too_little_time_for_compiling_is_told(self):
        status, rows, _ = self.run_driver({"": 0.5}, {"readydefault": "hangs"}, "--budget=2")
        self.assertEqual(status, 0)
        self.assertIn("PyTorch: no 'ready' within 1 s", rows[""].note)
        self.assertIsNone(rows[""].peer)

    def test_without_our_program_pytorch_is_measured_alone(self):
        status, rows, _ = self.run_driver(None, FAST_TORCH)
        self.assertEqual(status, 0)
        self.assertIsNone(rows[""].ours)
        self.assertIn("ours: this bundle has no program for it", rows[""].note)

    def test_without_pytorch_ours_is_measured_alone(self):
        status, rows, _ = self.run_driver({"": 0.5}, {"readydefault": "cannot"})
        self.assertEqual(status, 0)
        self.assertIsNone(rows[""].peer)
        self.assertEqual(rows["step"].ours, 2.5)
        self.assertIn("error: no PyTorch here", rows[""].note)

    def test_a_side_that_dies_is_a_failure_and_the_other_stands(self):
        status, rows, _ = self.run_driver({"dies": 3}, FAST_TORCH)
        self.assertEqual(status, 1)
        self.assertIn("ours: exit status 1: error: out of memory", rows[""].note)
        self.assertEqual(rows["step"].peer, 5.0)
        self.assertIsNone(rows["peak memory"].ours)

    def test_a_side_that_cannot_tell_its_kernels_says_why(self):
        status, rows, _ = self.run_driver({"": 0.5, "profile": {"why": "libcupti.so.13: not found"}}, FAST_TORCH)
        self.assertEqual(status, 0)
        self.assertIn("ours: no kernels by name: libcupti.so.13: not found", rows[""].note)
        self.assertEqual((rows["matmul kernels"].ours, rows["matmul kernels"].peer), (None, 1.5))
        self.assertIsNone(rows["all kernels and copies"].ours)

    def test_a_profiler_that_saw_nothing_is_told(self):
        _, rows, _ = self.run_driver({"": 0.5, "profile": {"steps": 3, "kernels": []}}, FAST_TORCH)
        self.assertIn("ours: no kernels by name: its profiler recorded none", rows[""].note)

    def test_kernels_without_a_time_are_told(self):
        _, rows, _ = self.run_driver({"": 0.5, "profile": {"steps": 1, "kernels": [["nvjet", 1, 9.0]], "lost": 7}}, FAST_TORCH)
        self.assertIn("ours: 7 kernels or copies have no time", rows[""].note)

    def test_where_nothing_runs_a_row_says_why(self):
        status, _, rows = self.run_driver(None, {"readydefault": "cannot"})
        self.assertEqual((status, len(rows), rows[0].ours, rows[0].peer), (0, 1, None, None))

    def test_a_row_names_the_batch_of_the_run(self):
        _, _, rows = self.run_driver({"": 0.5}, FAST_TORCH, "--batch=8")
        self.assertEqual(rows[0].what, "cnn 28x28, filters 32 and 64, B=8, bf16")

    def test_an_unknown_gpu_has_no_utilisation(self):
        _, rows, _ = self.run_driver({"": 0.5}, FAST_TORCH, "--gpu=Other")
        self.assertNotIn("model FLOP utilisation", rows)

    def test_bad_arguments_are_refused(self):
        for arguments in (["--rounds=4"], ["--models", "bert"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                driver.parse(arguments)


class FiguresTest(unittest.TestCase):
    def test_operations_are_those_of_the_models(self):
        # 6 x 124.4 M + 6 x 12 x 768 x 1024
        self.assertEqual(models.MODELS["gpt2-124m"].flops, 803_261_952)
        self.assertEqual(models.mlp_flops(16, 32, 2, 256), 6 * (512 * 256 + 256 * 256 + 256 * 256))
        self.assertEqual(models.cnn_flops(4, 4, 1, [2], 8, 10), 6 * (16 * 9 * 2 + 4 * 2 * 8 + 8 * 10))

    def test_peaks_by_name(self):
        self.assertEqual(models.peak_flops("NVIDIA H200", "bf16"), 989.4e12)
        self.assertEqual(models.peak_flops("NVIDIA H100 PCIe", "tf32"), 378e12)
        self.assertEqual(models.peak_flops("NVIDIA A100-SXM4-80GB", "fp32"), 19.5e12)
        self.assertIsNone(models.peak_flops("Tesla T4", "bf16"))

    def test_kinds_of_kernels_by_name(self):
        for kernel, kind in {
                "nvjet_hsh_256x128_64x4_2x1_v_bz_coopA_NNT": "matmul",
                "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64": "matmul",
                "triton_tem_fused_addmm_gelu_3": "matmul",
                "sm90_xmma_fprop_implicit_gemm_indexed_bf16bf16_bf16f32_f32_nhwckrsc_nhwc": "convolution",
                "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7": "attention",
                "void cudnn::fusion::compute_dot_do_o_specialized<true, 64>(void const*)": "attention",
                "void cudnn::fusion::convert_dq_to_16bits<true>(void const*)": "attention",
                "void cublasLt::epilogue::impl::globalKernelBgradAB_v1<16, 16, __nv_bfloat16, float, float>(int)": "matmul",
                "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<...>": "attention",
                "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float>>": "optimizer",
                "triton_red_fused__log_softmax_nll_loss_forward_8": "loss",
                "triton_per_fused_add_native_layer_norm_5": "norm",
                "triton_poi_fused_gelu_backward_2": "elementwise",
                "void at::native::vectorized_elementwise_kernel<4, FillFunctor<float>>": "elementwise",
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "communication",
                "Memcpy DtoD (Device -> Device)": "copy",
                "layer_norm: void ringmaster::cuda::(anonymous namespace)::BackwardKernel<float>": "norm",
                "sum_of_squares: ringmaster::(anonymous namespace)::TotalKernel": "optimizer",
                "cast: void ringmaster::cuda::ConvertKernel<float>": "elementwise",
                "patches: void ringmaster::cuda::MakePatchesKernel<float>": "convolution",
                "something": "other"}.items():
            self.assertEqual(kinds.kind_of(kernel), kind, kernel)

    def test_times_are_of_a_step_and_the_longest_comes_first(self):
        kernels = [("nvjet_a", 1, 1000.0), ("nvjet_b", 7, 3000.0), ("Memset (Device)", 2, 6000.0)]
        self.assertEqual(list(kinds.by_kind(kernels, 2).items()), [("copy", 3.0), ("matmul", 2.0)])

    def test_each_of_our_kernels_has_a_kind(self):
        names = [f"{path.stem}: {kernel}" for folder in ("worker/nn/cuda", "worker/train/cuda", "worker/device/cuda")
                 for path in sorted(pathlib.Path(folder).glob("*.cu*"))
                 for kernel in re.findall(r"__global__[^({;]*?(\w+)\(", re.sub(r"__launch_bounds__\(.*?\)", "", path.read_text()))]
        self.assertIn("layer_norm: BackwardKernel", names)
        for name in names:
            if not name.startswith("kernel:"):  # kernel.cuh's example
                self.assertNotEqual(kinds.kind_of(name), "other", f"{name}: kinds.py has no rule for it")


class TorchStepTest(unittest.TestCase):
    def test_without_pytorch_or_a_gpu_it_says_so_in_one_line(self):
        result = subprocess.run([sys.executable, "-m", "tests.gpu.step_vs_torch.torch_step", "--model=cnn"], capture_output=True,
                                text=True, check=False, stdin=subprocess.DEVNULL, env=dict(os.environ, CUDA_VISIBLE_DEVICES="-1"))
        self.assertEqual(result.returncode, torch_step.CANNOT_RUN, result.stderr)
        self.assertRegex(result.stderr.splitlines()[-1], r"^error: (.* has no PyTorch|PyTorch .* sees no GPU)")

    def test_a_model_has_its_own_batch_unless_given(self):
        args = torch_step.parse(["--model=mlp"])
        self.assertEqual((args.batch, args.steps, args.precision), (16384, 500, "bf16"))
        self.assertEqual(torch_step.parse(["--model=mlp", "--batch=8"]).batch, 8)

    def test_parameters_in_bf16_and_products_in_fp32_are_refused(self):
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as errors:
            torch_step.parse(["--model=mlp", "--parameters=bf16", "--precision=fp32"])
        self.assertIn("give --precision=bf16", errors.getvalue())


if __name__ == "__main__":
    report.main()
