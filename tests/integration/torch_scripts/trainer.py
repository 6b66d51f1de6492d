"""A loop as a trainer class has it: parameters that a step leaves out, metrics that are averaged, checkpoints of rank 0, an epoch at a time."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.set_num_threads(1)
print("pid", os.getpid(), flush=True)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(20, 32)
        self.experts = nn.ModuleList(nn.Linear(32, 32) for _ in range(2))
        self.last = nn.Linear(32, 4)

    def forward(self, batch, which):
        return self.last(torch.relu(self.experts[which](torch.relu(self.first(batch)))))


inputs = torch.randn(960, 20)
labels = (inputs[:, :4].abs()).argmax(1)
data = TensorDataset(inputs, labels)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=16, sampler=sampler, num_workers=1, persistent_workers=True)
model = DistributedDataParallel(Experts(), find_unused_parameters=True)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
steps = 0
while steps < int(sys.argv[1]):
    sampler.set_epoch(steps)
    total = torch.zeros(2, dtype=torch.float64)
    for batch, wanted in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch, steps % 2), wanted)
        loss.backward()
        optimizer.step()
        total += torch.tensor([loss.item() * len(batch), len(batch)])
        steps += 1
        print("step", steps, flush=True)
    dist.all_reduce(total)
    dist.barrier()
    if rank == 0:
        torch.save({"model": model.module.state_dict(), "steps": steps}, "checkpoint.pt")
print("parameters", [float(parameter.double().sum()) for parameter in model.parameters()], flush=True)
print("loss", float(total[0] / total[1]), flush=True)
