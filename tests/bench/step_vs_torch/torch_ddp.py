"""Seconds per training step of PyTorch's DistributedDataParallel over Gloo on this host: the peer in run.py.

  /usr/bin/python3 -m tests.bench.step_vs_torch.torch_ddp --case gpt2_124m --ranks 2 --precision fp32 --steps 8

A rank is a process with one thread, kept on one core. Every step has new random tokens. It prints one JSON object a line:
  {"step", "seconds", "cpu_seconds", "tokens", "loss"}
                                                  each step, from rank 0; tokens are those of all ranks together, and
                                                  cpu_seconds are rank 0's, which other programs disturb less
  {"start_seconds"}                               from the start of the program to the end of the first step
PyTorch gets what helps it, as measured on a Xeon of model 207 (CPU time of a step of gpt_14m, one rank, fp32: 0.96 s):
  OPENBLAS_CORETYPE=SkylakeX   that OpenBLAS (0.3.21) takes this processor for a Prescott costs it 3.2 s
  malloc keeps its blocks      or the kernel maps and clears the large ones in each step: 0.99 s
  AdamW over lists of tensors  1 % better than tensor by tensor, in gpt2_124m too
  one thread for OpenBLAS      its own threads, one for each core, take a core from the other rank
and gradients that are views of the buckets. Options and variables are there to measure the other way.
"""

import argparse
import json
import os
import sys
import tempfile
import time

CASES = {
    # a model of torch_models and its settings, samples of a rank, tokens of a sample
    "gpt2_124m": ("gpt", {"vocabulary": 50257, "window": 1024, "layers": 12, "heads": 12, "width": 768}, 4, 64),
    "gpt_14m": ("gpt", {"vocabulary": 8192, "window": 1024, "layers": 6, "heads": 6, "width": 384}, 8, 128),
    "llama_160m": ("llama", {"vocabulary": 32000, "window": 2048, "layers": 12, "heads": 12, "kv_heads": 12, "width": 768,
                             "hidden": 3072, "tied": 0}, 4, 64),
    "bert_base": ("bert", {"vocabulary": 30522, "window": 512, "layers": 12, "heads": 12, "width": 768, "hidden": 3072,
                           "roberta": 0, "padding": 0, "separator": 102, "mask": 103, "norm_epsilon": 1e-12, "classes": 0,
                           "masked_share": 0.15}, 4, 128),
}


def parse():
    parser = argparse.ArgumentParser(description="Times PyTorch's DDP over Gloo on this host.")
    parser.add_argument("--case", choices=sorted(CASES), default="gpt_14m")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--adamw", choices=("foreach", "for_loop"), default="foreach", help="PyTorch's implementation")
    parser.add_argument("--default_malloc", action="store_true", help="malloc as it comes")
    return parser.parse_args()


def prepare_environment(args):
    """Before PyTorch is loaded. malloc reads its settings when a program starts, so this one starts again."""
    wanted = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        flags = file.read()
    if "avx512vl" in flags and "OPENBLAS_CORETYPE" not in os.environ:
        wanted["OPENBLAS_CORETYPE"] = "SkylakeX"
    if not args.default_malloc:
        wanted.update({"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(16 << 30), "MALLOC_TOP_PAD_": str(64 << 20)})
    wanted.setdefault("STEP_BENCH_STARTED", os.environ.get("STEP_BENCH_STARTED", repr(time.time())))
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.environ.update(wanted)
        os.execv(sys.executable, [sys.executable, "-m", "tests.bench.step_vs_torch.torch_ddp"] + sys.argv[1:])


def make_batch(kind, settings, samples, tokens, generator):
    """(inputs, targets) of new samples."""
    import torch  # pylint: disable=import-outside-toplevel
    from tests.parity import torch_models  # pylint: disable=import-outside-toplevel

    if kind == "bert":
        ids = torch.randint(settings["vocabulary"], (samples, tokens), generator=generator)
        places, _ = torch_models.mask_tokens(ids, *(settings[key] for key in ("vocabulary", "mask", "masked_share")))
        return ids, torch.gather(ids, 1, places)
    ids = torch.randint(settings["vocabulary"], (samples, tokens + 1), generator=generator)
    return ids[:, :-1], ids[:, 1:]


def run_rank(args, rank, directory):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    import torch  # pylint: disable=import-outside-toplevel
    from tests.parity import torch_models  # pylint: disable=import-outside-toplevel

    torch.set_num_threads(1)
    kind, settings, samples, tokens = CASES[args.case]
    torch.manual_seed(args.seed)
    model = torch_models.build({"model": kind, "settings": settings})
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.02)
        else:
            # Weights of one dimension are those of norms.
            torch.nn.init.constant_(parameter, 1 if name.endswith("weight") else 0)
    network = model
    if args.ranks > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{directory}/rendezvous", rank=rank,
                                             world_size=args.ranks)
        network = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, broadcast_buffers=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, foreach=args.adamw == "foreach")
    generator = torch.Generator().manual_seed(args.seed * 1000 + rank)
    for step in range(1, args.steps + 1):
        if args.ranks > 1:
            torch.distributed.barrier()
        started, cpu_started = time.perf_counter(), time.process_time()
        inputs, targets = make_batch(kind, settings, samples, tokens, generator)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            logits = network(inputs)
        loss = torch_models.mean_loss(logits, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
        if rank == 0:
            print(json.dumps({"step": step, "seconds": round(seconds, 6), "cpu_seconds": round(cpu_seconds, 6),
                              "tokens": args.ranks * samples * tokens, "loss": round(loss.item(), 6)}), flush=True)
            if step == 1:
                print(json.dumps({"start_seconds": round(time.time() - float(os.environ["STEP_BENCH_STARTED"]), 3)}),
                      flush=True)


def main():
    args = parse()
    prepare_environment(args)
    with tempfile.TemporaryDirectory() as directory:
        for rank in range(args.ranks):
            if os.fork() == 0:
                status = 1
                try:
                    run_rank(args, rank, directory)
                    status = 0
                finally:
                    sys.stdout.flush()
                    if status:
                        sys.excepthook(*sys.exc_info())
                    os._exit(status)
        statuses = [os.wait()[1] for _ in range(args.ranks)]
    return 1 if any(statuses) else 0


if __name__ == "__main__":
    sys.exit(main())
