"""The models as one writes them for speed in PyTorch: the same function as tests/parity/torch_models.py, except for what is named.

Each maps (inputs, targets) to the mean loss, so that torch.compile sees all of it.
"""

import torch
from torch import nn
from torch.nn import functional


class Gpt(nn.Module):
    """The vocabulary is rounded up to a multiple of 128, which is faster; attention is PyTorch's fused one."""

    def __init__(self, vocabulary, window, layers, heads, width):
        super().__init__()
        self.tokens = nn.Embedding((vocabulary + 127) // 128 * 128, width)
        self.positions = nn.Embedding(window, width)
        self.blocks = nn.ModuleList([GptBlock(heads, width) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits.view(-1, logits.size(-1)).float(), targets.view(-1))


class GptBlock(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm_1(x)).split(width, dim=2))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Cnn(nn.Module):
    """Images are NCHW in channels_last layout, which is cuDNN's fast one."""

    def __init__(self, height, width, channels, filters, hidden_dim, classes):
        super().__init__()
        stages = zip([channels] + filters, filters)
        self.convolutions = nn.ModuleList([nn.Conv2d(inputs, outputs, 3, padding=1) for inputs, outputs in stages])
        for _ in filters:
            height, width = height // 2, width // 2
        self.hidden = nn.Linear(height * width * filters[-1], hidden_dim)
        self.output = nn.Linear(hidden_dim, classes)

    def forward(self, pixels, targets):
        x = (pixels.float() / 255).contiguous(memory_format=torch.channels_last)
        for convolution in self.convolutions:
            x = functional.max_pool2d(functional.relu(convolution(x)), 2)
        logits = self.output(functional.relu(self.hidden(x.flatten(1))))
        return functional.cross_entropy(logits.float(), targets)


class Mlp(nn.Module):
    def __init__(self, window, embedding_dim, hidden_layers, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(256, embedding_dim)
        widths = [window * embedding_dim] + [hidden_dim] * hidden_layers
        self.hidden = nn.ModuleList([nn.Linear(*pair) for pair in zip(widths, widths[1:])])
        self.output = nn.Linear(widths[-1], 256)

    def forward(self, tokens, targets):
        x = self.embedding(tokens).flatten(1)
        for linear in self.hidden:
            x = functional.gelu(linear(x), approximate="tanh")
        return functional.cross_entropy(self.output(x).float(), targets)


def build(name, settings):
    return {"gpt2-124m": Gpt, "cnn": Cnn, "mlp": Mlp}[name](**settings)


def batches(name, settings, batch, count, device):
    """`count` random batches (inputs, targets) on the device."""
    def integers(high, *shape):
        return torch.randint(high, shape, device=device)

    made = []
    for _ in range(count):
        if name == "cnn":
            pixels = integers(256, batch, settings["channels"], settings["height"], settings["width"]).to(torch.uint8)
            made.append((pixels, integers(settings["classes"], batch)))
        elif name == "mlp":
            made.append((integers(256, batch, settings["window"]), integers(256, batch)))
        else:
            tokens = integers(settings["vocabulary"], batch, settings["window"] + 1)
            made.append((tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()))
    return made
