"""Two models over two groups in several dtypes: one by hand, with all_reduce after backward, one with static_graph."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
print("pid", os.getpid(), flush=True)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
group = dist.new_group(list(range(size)))
torch.manual_seed(0)
left = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16)).double()
right = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1)), process_group=group, static_graph=True)
optimizer = torch.optim.SGD([*left.parameters(), *right.parameters()], lr=0.05)
data = torch.Generator().manual_seed(100 + rank)
for step in range(int(sys.argv[1])):
    batch = torch.randn(32, 16, generator=data)
    optimizer.zero_grad()
    loss = (right(left(batch.double()).float()) - batch.sum(1, keepdim=True).sin()).square().mean()
    loss.backward()
    works = [dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, async_op=True) for parameter in left.parameters()]
    for work in works:
        work.wait()
    largest = loss.detach().clone()
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    optimizer.step()
    print("step", step, flush=True)
print("parameters", [float(parameter.double().sum()) for parameter in optimizer.param_groups[0]["params"]], flush=True)
print("loss", float(loss), flush=True)
