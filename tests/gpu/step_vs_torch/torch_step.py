"""PyTorch's side of step_vs_torch (models.py says what a side is).

  python3 -m tests.gpu.step_vs_torch.torch_step --model=gpt2-124m --compile=max-autotune

It gets what helps it: torch.compile of the model with its loss, fused scaled-dot-product attention, fused AdamW, TF32 where
fp32 is left, channels_last and cuDNN's search for convolutions, batches that lie on the GPU. With --precision=bf16 parameters,
gradients and moments are fp32 and products are bf16 (autocast), as ours are; --parameters=bf16 makes all of it bf16, which
trains worse. --device=cpu is there to try the program where there is no GPU.
"""

import argparse
import json
import sys
import time

from tests.gpu.step_vs_torch import models

CANNOT_RUN = 2
WARMUP = 5  # steps after those that compile; CUDA graphs are recorded in the second
PROFILED = 3


def parse(arguments=None):
    parser = argparse.ArgumentParser(description="PyTorch's training step, timed.")
    parser.add_argument("--model", choices=sorted(models.MODELS), required=True)
    parser.add_argument("--batch", type=int, default=0, help="samples; the model's own unless given")
    parser.add_argument("--steps", type=int, default=0, help="of a round; the model's own unless given")
    parser.add_argument("--precision", choices=("bf16", "tf32", "fp32"), default="bf16")
    parser.add_argument("--parameters", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--compile", choices=("default", "max-autotune", "off"), default="default")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    args = parser.parse_args(arguments)
    if args.parameters == "bf16" and args.precision != "bf16":
        parser.error("--parameters=bf16 computes in bf16: give --precision=bf16")
    args.batch = args.batch or models.MODELS[args.model].batch
    args.steps = args.steps or models.MODELS[args.model].steps
    return args


def cannot_run(why):
    print(f"error: {why}", file=sys.stderr)
    sys.exit(CANNOT_RUN)


def load_torch(device):
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        cannot_run(f"{sys.executable} has no PyTorch: {error}")
    if device == "cuda" and not torch.cuda.is_available():
        cannot_run(f"PyTorch {torch.__version__} sees no GPU")
    return torch


class Trainer:
    def __init__(self, torch, args):
        from tests.gpu.step_vs_torch import torch_nets  # pylint: disable=import-outside-toplevel

        self._torch, self._args = torch, args
        torch.manual_seed(1)
        torch.set_float32_matmul_precision("highest" if args.precision == "fp32" else "high")
        torch.backends.cudnn.allow_tf32 = args.precision != "fp32"
        torch.backends.cudnn.benchmark = True
        settings = models.MODELS[args.model].settings
        net = torch_nets.build(args.model, settings).to(args.device)
        if args.model == "cnn":
            net = net.to(memory_format=torch.channels_last)
        if args.parameters == "bf16":
            net = net.to(torch.bfloat16)
        fused = {"fused": True} if args.device == "cuda" else {}
        self._optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=0.01, **fused)
        mode = None if args.compile == "default" else args.compile
        self._net = net if args.compile == "off" else torch.compile(net, mode=mode)
        self._batches = torch_nets.batches(args.model, settings, args.batch, 4, args.device)
        self._step = 0
        self.loss = None

    def synchronize(self):
        if self._args.device == "cuda":
            self._torch.cuda.synchronize()

    def step(self):
        inputs, targets = self._batches[self._step % len(self._batches)]
        self._step += 1
        if self._args.compile == "max-autotune":
            self._torch.compiler.cudagraph_mark_step_begin()
        with self._torch.autocast(self._args.device, dtype=self._torch.bfloat16, enabled=self._args.precision == "bf16"):
            loss = self._net(inputs, targets)
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.loss = loss.detach()

    def seconds_of(self, steps):
        self.synchronize()
        started = time.perf_counter()
        for _ in range(steps):
            self.step()
        self.synchronize()
        return time.perf_counter() - started

    def profile(self):
        """As models.py says. Annotations, which cover kernels, would count them twice."""
        profiler = self._torch.profiler
        if self._args.device != "cuda":
            return {"why": "it computes on the CPU"}
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
            self.seconds_of(PROFILED)
        kernels = [(event.key, event.count, event.self_device_time_total) for event in profile.key_averages()
                   if str(event.device_type).endswith("CUDA") and not getattr(event, "is_user_annotation", False)]
        return {"steps": PROFILED, "kernels": kernels}

    def end(self):
        memory = self._torch.cuda.max_memory_reserved() / 2**30 if self._args.device == "cuda" else None
        return {"peak_memory_gib": memory, "loss": float(self.loss)}


def serve(trainer, args, version):
    def say(kind, what):
        print(json.dumps({kind: what}), flush=True)

    trainer.seconds_of(WARMUP)
    settings = f"torch.compile {args.compile}, {args.parameters} parameters"
    say("ready", {"name": f"PyTorch {version}", "settings": settings})
    for line in sys.stdin:
        if line.strip() == "round":
            say("round", {"seconds": trainer.seconds_of(args.steps)})
        elif line.strip() == "profile":
            say("profile", trainer.profile())
        elif line.strip():
            sys.exit(f"error: {line.strip()!r} is no command; a line is 'round' or 'profile'")
    say("end", trainer.end())


def main():
    args = parse()
    torch = load_torch(args.device)
    serve(Trainer(torch, args), args, torch.__version__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
