"""A small transformer over characters, with accumulation of gradients, AdamW and clipping, as people train one under torchrun."""

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
TEXT = torch.tensor(list(b"the ring goes round and round, and nobody who falls out of it stops the others. ")) % 64


class Model(nn.Module):
    def __init__(self, width=48, length=24):
        super().__init__()
        self.tokens, self.places = nn.Embedding(64, width), nn.Embedding(length, width)
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True), 2)
        self.head = nn.Linear(width, 64)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, tokens):
        hidden = self.tokens(tokens) + self.places.weight
        return self.head(self.blocks(hidden, self.mask))


model = DistributedDataParallel(Model(), gradient_as_bucket_view=True, bucket_cap_mb=0.05)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
data = torch.Generator().manual_seed(100 + rank)
for step in range(int(sys.argv[1])):
    for part in range(2):
        starts = torch.randint(0, len(TEXT) - 25, (8,), generator=data)
        tokens = torch.stack([TEXT[start:start + 25] for start in starts])
        model.require_backward_grad_sync = part == 1
        loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        (loss / 2).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, flush=True)
print("parameters", [float(parameter.double().sum()) for parameter in model.parameters()], flush=True)
print("loss", float(loss), flush=True)
