"""A convolutional network with batch normalisation, as people train one under torchrun: nothing in it knows of Ringmaster."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
print("pid", os.getpid(), flush=True)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
    nn.Linear(16 * 16, 10)), bucket_cap_mb=0.01)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
templates = torch.randn(10, 1, 14, 14, generator=torch.Generator().manual_seed(1))
data = torch.Generator().manual_seed(100 + rank)
for step in range(int(sys.argv[1])):
    labels = torch.randint(0, 10, (16,), generator=data)
    images = templates[labels] + torch.randn(16, 1, 14, 14, generator=data)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    print("step", step, flush=True)
print("parameters", [float(parameter.double().sum()) for parameter in model.parameters()], flush=True)
print("loss", float(loss), flush=True)
