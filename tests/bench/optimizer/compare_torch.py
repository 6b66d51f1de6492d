#!/usr/bin/env python3
"""Our optimizer and PyTorch's, in turn, on GPT-2 small's parameters.

    bazel build //tests/bench/optimizer:optimizer_bench
    compare_torch.py bazel-bin/tests/bench/optimizer/optimizer_bench [THREADS [ROUNDS]]

Needs PyTorch (Debian's python3-torch will do). Every round runs each candidate once (A B C A B C ...), so that a
disturbance of the machine hits all; the table shows the best and the median over rounds, and the ratio of medians.
Figures of a shared machine are worth no more than their ratios. Both sides hold the same number of parameters in the
same number of bytes; PyTorch's are the 148 tensors of the model, ours are one arena.
"""

import os
import statistics
import subprocess
import sys
import time

WARMUP_ROUNDS = 2


def gpt2_shapes():
    width, layers, vocabulary, window = 768, 12, 50257, 1024
    layer = [
        (width,), (width,), (width, 3 * width), (3 * width,), (width, width), (width,),
        (width,), (width,), (width, 4 * width), (4 * width,), (4 * width, width), (width,),
    ]
    return [(vocabulary, width), (window, width)] + layer * layers + [(width,), (width,)]


class Ours:
    def __init__(self, program, threads):
        self.process = subprocess.Popen(
            [program, str(threads), "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def round(self):
        """Milliseconds by name."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        pairs = (field.split("=") for field in self.process.stdout.readline().split())
        return {f"ours {name}": float(millis) for name, millis in pairs}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Torch:
    def __init__(self, threads):
        import torch

        torch.set_num_threads(threads)
        self.torch = torch
        self.parameters = [torch.nn.Parameter(torch.full(shape, 0.01)) for shape in gpt2_shapes()]
        for parameter in self.parameters:
            parameter.grad = torch.full_like(parameter, 1e-3)
        self.candidates = {
            "torch norm": self.norm,
            "torch adamw": torch.optim.AdamW(self.parameters, lr=1e-6).step,
            "torch adamw foreach": torch.optim.AdamW(self.parameters, lr=1e-6, foreach=True).step,
            "torch sgd foreach": torch.optim.SGD(
                self.parameters, lr=1e-6, momentum=0.9, weight_decay=0.01, foreach=True).step,
        }

    def norm(self):
        norms = self.torch._foreach_norm([p.grad for p in self.parameters])
        return self.torch.linalg.vector_norm(self.torch.stack(norms)).item()

    def round(self):
        millis = {}
        for name, run in self.candidates.items():
            start = time.perf_counter()
            run()
            millis[name] = 1000 * (time.perf_counter() - start)
        return millis


def main(program, threads=1, rounds=9):
    os.environ["OMP_NUM_THREADS"] = str(threads)
    torch = Torch(threads)
    ours = Ours(program, threads)
    results = {}
    for number in range(WARMUP_ROUNDS + rounds):
        for name, millis in {**ours.round(), **torch.round()}.items():
            if number >= WARMUP_ROUNDS:
                results.setdefault(name, []).append(millis)
    ours.close()

    against = {"torch norm": "ours norm", "torch sgd foreach": "ours sgd"}
    print(f"torch {torch.torch.__version__}, {threads} threads, {rounds} rounds")
    print(f"{'':22}{'best ms':>10}{'median':>10}{'/ ours':>10}")
    for name, millis in results.items():
        median = statistics.median(millis)
        ratio = ""
        if name.startswith("torch"):
            ratio = f"{median / statistics.median(results[against.get(name, 'ours adamw')]):.2f}"
        print(f"{name:22}{min(millis):10.1f}{median:10.1f}{ratio:>10}")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
