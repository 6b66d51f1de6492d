"""What a rank of run.py does: times one thing over gloo and over Ringmaster's back end, in turns, in the same processes.

Rank 0 writes a JSON object with the seconds of each turn to --out: {what: {"gloo": [...], "ours": [...]}}.
"""

import argparse
import json
import os
import time

import torch
import torch.distributed as dist

BACKENDS = ("gloo", "ours")
CALLS = {
    "all_reduce": lambda group, tensor, _: dist.all_reduce(tensor, group=group),
    "broadcast": lambda group, tensor, _: dist.broadcast(tensor, 0, group=group),
    "all_gather": lambda group, tensor, parts: dist.all_gather(parts, tensor, group=group),
    "all_to_all": lambda group, tensor, parts: dist.all_to_all_single(parts[0], tensor, group=group),
    "barrier": lambda group, _, __: dist.barrier(group=group),
}


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", nargs="*", default=[], help="CALL:BYTES, of each rank's tensor")
    parser.add_argument("--seconds", type=float, default=0.3, help="of each call, about, in a round")
    parser.add_argument("--case", help="a case of step_vs_torch, to train by DistributedDataParallel")
    parser.add_argument("--steps", type=int, default=3, help="of a case, in a round")
    return parser.parse_args()


def time_call(call, groups, size, args):
    """{backend: medians of the rounds}; the ranks make the same number of calls."""
    name, count = call.split(":")[0], max(1, int(call.split(":")[1]) // 4)
    tensor = torch.ones(count)
    parts = [torch.empty(count) for _ in range(size)] if name == "all_gather" else [torch.empty(count)]
    medians = {backend: [] for backend in BACKENDS}
    for _ in range(args.rounds):
        for backend in BACKENDS:
            run = lambda group=groups[backend]: CALLS[name](group, tensor, parts)  # noqa: E731
            for _ in range(2):
                tensor.fill_(1)
                run()
            begin = time.perf_counter()
            run()
            repeats = torch.tensor([max(3, min(1000, int(args.seconds / (time.perf_counter() - begin))))])
            dist.broadcast(repeats, 0)
            seconds = []
            for turn in range(int(repeats)):
                if turn % 100 == 0:
                    tensor.fill_(1)  # sums must not end in infinities
                begin = time.perf_counter()
                run()
                seconds.append(time.perf_counter() - begin)
            medians[backend].append(sorted(seconds)[len(seconds) // 2])
    return medians


def time_case(case, groups, rank, args):
    """{backend: seconds of each step}, of DistributedDataParallel over each."""
    from tests.bench.step_vs_torch import torch_ddp  # pylint: disable=import-outside-toplevel
    from tests.parity import torch_models  # pylint: disable=import-outside-toplevel

    kind, settings, samples, tokens = torch_ddp.CASES[case]
    ways = {}
    for backend in BACKENDS:
        torch.manual_seed(1)
        model = torch_models.build({"model": kind, "settings": settings})
        network = torch.nn.parallel.DistributedDataParallel(model, process_group=groups[backend], gradient_as_bucket_view=True,
                                                            broadcast_buffers=False)
        ways[backend] = (network, torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True))
    generator = torch.Generator().manual_seed(rank)
    seconds = {backend: [] for backend in BACKENDS}
    for round_ in range(args.rounds + 1):
        for backend in BACKENDS:
            network, optimizer = ways[backend]
            for _ in range(args.steps):
                dist.barrier()
                begin = time.perf_counter()
                inputs, targets = torch_ddp.make_batch(kind, settings, samples, tokens, generator)
                loss = torch_models.mean_loss(network(inputs), targets)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                if round_ > 0:  # the first one warms up
                    seconds[backend].append(time.perf_counter() - begin)
    return seconds


def main():
    args = parse()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    import ringmaster_torch  # noqa: F401  pylint: disable=import-outside-toplevel,import-error,unused-import
    rank, size = dist.get_rank(), dist.get_world_size()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]} if args.case else set(cores))
    groups = {"gloo": dist.new_group(backend="gloo"), "ours": dist.new_group(backend="ringmaster")}
    results = {call: time_call(call, groups, size, args) for call in args.calls}
    if args.case:
        results[args.case] = time_case(args.case, groups, rank, args)
    if rank == 0:
        with open(args.out, "w", encoding="ascii") as file:
            json.dump(results, file)
    dist.barrier()


if __name__ == "__main__":
    main()
