"""A small perceptron trained by PyTorch's DistributedDataParallel, which torchrun and `ringctl run` start alike in run.py.

It does as its users do: rank 0 writes a checkpoint (model, optimizer, step) at a fixed interval of steps, and a rank
that is started again loads the last one. Every rank appends {"time", "step", "attempt"} to DIR/steps-RANK.jsonl after each step,
and leaves its pid in DIR/pid-ATTEMPT-RANK.
"""

import argparse
import json
import os
import pathlib
import time

import torch

VOCABULARY = 256


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=pathlib.Path, required=True)
    parser.add_argument("--batch", type=int, required=True, help="samples of a step, over all ranks")
    parser.add_argument("--hidden", type=int, required=True)
    parser.add_argument("--every_steps", type=int, required=True, help="steps between checkpoints")
    return parser.parse_args()


def perceptron(hidden, window=16, embedding=16, layers=3):
    sizes = [window * embedding] + [hidden] * layers
    parts = [torch.nn.Embedding(VOCABULARY, embedding), torch.nn.Flatten()]
    for before, after in zip(sizes, sizes[1:]):
        parts += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts, torch.nn.Linear(hidden, VOCABULARY))


def save(path, model, optimizer, step):
    partial = path.with_suffix(".partial")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, partial)
    partial.rename(path)


def main():
    args = parse()
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    (args.directory / f"pid-{attempt}-{rank}").write_text(str(os.getpid()), encoding="ascii")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.distributed.init_process_group("gloo")
    model = perceptron(args.hidden)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    step, path = 0, args.directory / "checkpoint.pt"
    if path.exists():
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    network = torch.nn.parallel.DistributedDataParallel(model)
    with open(args.directory / f"steps-{rank}.jsonl", "a", encoding="ascii") as log:
        while True:
            step += 1
            generator = torch.Generator().manual_seed(step * world_size + rank)
            samples = torch.randint(VOCABULARY, (args.batch // world_size, 17), generator=generator)
            loss = torch.nn.functional.cross_entropy(network(samples[:, :16]), samples[:, 16])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            log.write(json.dumps({"time": time.time(), "step": step, "attempt": attempt}) + "\n")
            log.flush()
            if rank == 0 and step % args.every_steps == 0:
                save(path, model, optimizer, step)


if __name__ == "__main__":
    main()
