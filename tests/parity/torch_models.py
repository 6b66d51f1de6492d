"""PyTorch twins of this project's models: the same parameters by name and shape, the same function, the same loss.

A config is the JSON object that a parity case carries (see cases.py):
  {"model": "gpt", "settings": {"vocabulary", "window", "layers", "heads", "width"}}
  {"model": "llama", "settings": {"vocabulary", "window", "layers", "heads", "kv_heads", "width", "hidden", "tied"}}
  {"model": "bert", "settings": {"vocabulary", "window", "layers", "heads", "width", "hidden", "roberta", "padding", "separator",
                                 "mask", "norm_epsilon", "classes", "masked_share"}}
  {"model": "cnn", "settings": {"height", "width", "channels", "filters": [...], "hidden_dim", "classes"}}
  {"model": "resnet", "settings": {"depth", "height", "width", "channels", "filters", "classes"}}
  {"model": "mlp", "settings": {"window", "embedding_dim", "hidden_layers", "hidden_dim"}}

The GPT is GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019) with the names and weight
layouts of Hugging Face's GPT2LMHeadModel; the Llama (Touvron et al., "LLaMA", 2023) has those of its LlamaForCausalLM, the
BERT (Devlin et al., "BERT", 2019) those of its BertForMaskedLM, BertForSequenceClassification and RoBERTa's, with the tokens
that are masked drawn as worker/nn/texts.h says, for the key 0 and samples 0.
Dropout is 0 everywhere.
"""

import math

import torch
from torch import nn
from torch.nn import functional

MLP_VOCABULARY = 256  # bytes


class Conv1D(nn.Module):
    """A linear layer whose weight is [in, out], as GPT-2's checkpoints have it."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        flat = torch.addmm(self.bias, x.reshape(-1, x.size(-1)), self.weight)
        return flat.view(*x.shape[:-1], -1)


class Attention(nn.Module):
    def __init__(self, width, heads, window):
        super().__init__()
        self.heads = heads
        self.c_attn = Conv1D(width, 3 * width)
        self.c_proj = Conv1D(width, width)
        # No buffer: DistributedDataParallel would broadcast it, and Gloo has no bool.
        self.future = torch.ones(window, window, dtype=torch.bool).triu(1)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2)
                   for part in self.c_attn(x).split(width, dim=2))
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        # The most negative number, not -inf: as in Hugging Face's, and the same after the softmax.
        scores = scores.masked_fill(self.future[:tokens, :tokens], torch.finfo(scores.dtype).min)
        mixed = scores.softmax(dim=-1) @ v
        return self.c_proj(mixed.transpose(1, 2).reshape(batch, tokens, width))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = Conv1D(width, 4 * width)
        self.c_proj = Conv1D(4 * width, width)

    def forward(self, x):
        return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads, window):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-5)
        self.attn = Attention(width, heads, window)
        self.ln_2 = nn.LayerNorm(width, eps=1e-5)
        self.mlp = FeedForward(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """Token ids [B,T] -> logits [B,T,vocabulary]; the head is the token embedding."""

    def __init__(self, vocabulary, window, layers, heads, width):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocabulary, width),
            "wpe": nn.Embedding(window, width),
            "h": nn.ModuleList([Block(width, heads, window) for _ in range(layers)]),
            "ln_f": nn.LayerNorm(width, eps=1e-5),
        })

    def forward(self, tokens):
        t = self.transformer
        x = t["wte"](tokens) + t["wpe"](torch.arange(tokens.size(1)))
        for block in t["h"]:
            x = block(x)
        return functional.linear(t["ln_f"](x), t["wte"].weight)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


def rotate(x):
    """Turns the points of x [B,heads,T,dim], at i and i + dim / 2, by their angles (Su et al., "RoFormer", 2021)."""
    half = x.size(-1) // 2
    speeds = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.outer(torch.arange(x.size(-2), dtype=torch.float64), speeds)
    cosines, sines = (f(angles).repeat(1, 2).to(x.dtype) for f in (torch.cos, torch.sin))
    return x * cosines + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sines


class LlamaAttention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        kv_width = width // heads * kv_heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, kv_width, bias=False)
        self.v_proj = nn.Linear(width, kv_width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        batch, tokens, width = x.shape
        q = rotate(self.q_proj(x).view(batch, tokens, self.heads, -1).transpose(1, 2))
        k, v = (linear(x).view(batch, tokens, self.kv_heads, -1).transpose(1, 2)
                for linear in (self.k_proj, self.v_proj))
        k, v = (part.repeat_interleave(self.heads // self.kv_heads, dim=1) for part in (rotate(k), v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(future, torch.finfo(scores.dtype).min).softmax(dim=-1) @ v
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, tokens, width))


class LlamaMlp(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden):
        super().__init__()
        self.input_layernorm = RmsNorm(width)
        self.self_attn = LlamaAttention(width, heads, kv_heads)
        self.post_attention_layernorm = RmsNorm(width)
        self.mlp = LlamaMlp(width, hidden)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Token ids [B,T] -> logits [B,T,vocabulary]; the head is the token embedding if `tied`."""

    def __init__(self, vocabulary, window, layers, heads, kv_heads, width, hidden, tied):
        super().__init__()
        del window  # of its data alone
        self.model = nn.ModuleDict({
            "embed_tokens": nn.Embedding(vocabulary, width),
            "layers": nn.ModuleList([LlamaBlock(width, heads, kv_heads, hidden) for _ in range(layers)]),
            "norm": RmsNorm(width),
        })
        if not tied:
            self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.model["embed_tokens"](tokens)
        for block in self.model["layers"]:
            x = block(x)
        x = self.model["norm"](x)
        return self.lm_head(x) if hasattr(self, "lm_head") else functional.linear(x, self.model["embed_tokens"].weight)


def _dense_and_norm(inputs, outputs, epsilon):
    return nn.ModuleDict({"dense": nn.Linear(inputs, outputs), "LayerNorm": nn.LayerNorm(outputs, eps=epsilon)})


class BertBlock(nn.Module):
    def __init__(self, width, heads, hidden, epsilon):
        super().__init__()
        self.heads = heads
        self.attention = nn.ModuleDict({
            "self": nn.ModuleDict({part: nn.Linear(width, width) for part in ("query", "key", "value")}),
            "output": _dense_and_norm(width, width, epsilon),
        })
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, hidden)})
        self.output = _dense_and_norm(hidden, width, epsilon)

    def forward(self, x, is_token):
        batch, tokens, width = x.shape
        q, k, v = (self.attention["self"][part](x).view(batch, tokens, self.heads, -1).transpose(1, 2)
                   for part in ("query", "key", "value"))
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        scores = scores.masked_fill(~is_token[:, None, None, :], torch.finfo(scores.dtype).min)
        mixed = (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(batch, tokens, width)
        output = self.attention["output"]
        x = output["LayerNorm"](x + output["dense"](mixed))
        return self.output["LayerNorm"](x + self.output["dense"](functional.gelu(self.intermediate["dense"](x))))


class Bert(nn.Module):
    """Token ids [B,T] -> logits [B,masked,vocabulary] of the tokens that are masked, or [B,classes]."""

    def __init__(self, vocabulary, window, layers, heads, width, hidden, roberta, padding, separator, mask, norm_epsilon, classes,
                 masked_share):
        super().__init__()
        self.is_roberta, self.padding, self.separator, self.classes = bool(roberta), padding, separator, classes
        self.masking = (vocabulary, mask, masked_share)
        self.first_position = padding + 1 if roberta else 0
        self.bert = nn.ModuleDict({
            "embeddings": nn.ModuleDict({
                "word_embeddings": nn.Embedding(vocabulary, width),
                "position_embeddings": nn.Embedding(window + self.first_position, width),
                "token_type_embeddings": nn.Embedding(1 if roberta else 2, width),
                "LayerNorm": nn.LayerNorm(width, eps=norm_epsilon),
            }),
            "encoder": nn.ModuleDict({
                "layer": nn.ModuleList([BertBlock(width, heads, hidden, norm_epsilon) for _ in range(layers)]),
            }),
        })
        body = self.bert
        if self.is_roberta:
            self.roberta = self.bert
            del self.bert
        if classes and roberta:
            self.classifier = nn.ModuleDict({"dense": nn.Linear(width, width), "out_proj": nn.Linear(width, classes)})
        elif classes:
            body["pooler"] = nn.ModuleDict({"dense": nn.Linear(width, width)})
            self.classifier = nn.Linear(width, classes)
        elif roberta:
            self.lm_head = nn.ModuleDict({"dense": nn.Linear(width, width), "layer_norm": nn.LayerNorm(width, eps=norm_epsilon)})
            self.lm_head.bias = nn.Parameter(torch.empty(vocabulary))
        else:
            self.cls = nn.ModuleDict({"predictions": nn.ModuleDict({"transform": _dense_and_norm(width, width, norm_epsilon)})})
            self.cls["predictions"].bias = nn.Parameter(torch.empty(vocabulary))

    def forward(self, tokens):
        body = self.roberta if self.is_roberta else self.bert
        if self.classes:
            # Up to the last that is no padding, and at least one.
            is_token = (tokens != self.padding).flip(1).cumsum(1).flip(1) > 0
            is_token[:, 0] = True
        else:
            places, masked = mask_tokens(tokens, *self.masking)
            is_token = torch.ones_like(tokens, dtype=torch.bool)
        # A separator is of the text that it ends.
        is_end = tokens == self.separator if self.separator else torch.zeros_like(is_token)
        types = (is_end.long().cumsum(1) - is_end.long()).clamp(max=0 if self.is_roberta else 1)
        embeddings = body["embeddings"]
        x = embeddings["word_embeddings"](tokens if self.classes else masked)
        x = x + embeddings["position_embeddings"](torch.arange(tokens.size(1)) + self.first_position)
        x = embeddings["LayerNorm"](x + embeddings["token_type_embeddings"](types))
        for block in body["encoder"]["layer"]:
            x = block(x, is_token)
        if self.classes and self.is_roberta:
            return self.classifier["out_proj"](torch.tanh(self.classifier["dense"](x[:, 0])))
        if self.classes:
            return self.classifier(torch.tanh(body["pooler"]["dense"](x[:, 0])))
        x = torch.gather(x, 1, places[..., None].expand(-1, -1, x.size(-1)))
        head, norm = (self.lm_head, "layer_norm") if self.is_roberta else (self.cls["predictions"]["transform"], "LayerNorm")
        bias = (self.lm_head if self.is_roberta else self.cls["predictions"]).bias
        # PyTorch 1.13's layer norm takes no bfloat16 beside parameters of float.
        x = head[norm](functional.gelu(head["dense"](x)).to(bias.dtype))
        return functional.linear(x, embeddings["word_embeddings"].weight, bias)


_MASKING_SITE = 2**32 + 2
_WORD, _LONG_WORD = 2**32 - 1, 2**64 - 1


def _counter_random(key, counter):
    """common/plan/counter_random.h"""
    def mix(x):
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9 & _LONG_WORD
        x = (x ^ (x >> 27)) * 0x94d049bb133111eb & _LONG_WORD
        return x ^ (x >> 31)
    golden = 0x9e3779b97f4a7c15
    return mix((mix((key + golden) & _LONG_WORD) + (counter + 1) * golden) & _LONG_WORD)


def _mask_hash(draw, index):
    """worker/nn/dropout_mask.h"""
    x = index ^ (draw & _WORD)
    x = (x ^ (x >> 16)) * 0x7feb352d & _WORD
    x = ((x ^ (x >> 15)) + (draw >> 32)) & _WORD
    x = (x ^ (x >> 15)) * 0x846ca68b & _WORD
    return x ^ (x >> 16)


def masked_count(tokens, share):
    return min(max(math.floor(share * tokens + 0.5), 1), tokens)


def mask_tokens(tokens, vocabulary, mask, share):
    """(places [B,masked] of the tokens to predict, tokens [B,T] with masks): worker/nn/texts.h, of samples 0."""
    count = tokens.size(1)
    draw = _counter_random(_counter_random(0, _MASKING_SITE), 0)
    order = sorted(range(count), key=lambda i: (_mask_hash(draw, i), i))[:masked_count(count, share)]
    masked = tokens.clone()
    for place in order:
        chance = _mask_hash(draw, count + place) % 10
        if chance < 8:
            masked[:, place] = mask
        elif chance == 9:
            masked[:, place] = _mask_hash(draw, 2 * count + place) % vocabulary
    return torch.tensor(order).expand(tokens.size(0), -1), masked


class Conv(nn.Module):
    """3x3, stride 1, same padding; the weight is kept as [out, kh, kw, in]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, 3, 3, inputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        return functional.conv2d(x, self.weight.permute(0, 3, 1, 2), self.bias, padding=1)


class Cnn(nn.Module):
    """Pixels [B,H,W,C] in 0..255 -> logits [B,classes]."""

    def __init__(self, height, width, channels, filters, hidden_dim, classes):
        super().__init__()
        stages = list(zip([channels] + filters, filters))
        self.conv = nn.ModuleList([Conv(inputs, outputs) for inputs, outputs in stages])
        for _ in filters:
            height, width = height // 2, width // 2
        self.hidden = nn.Linear(height * width * filters[-1], hidden_dim)
        self.output = nn.Linear(hidden_dim, classes)

    def forward(self, pixels):
        x = (pixels.to(self.output.weight.dtype) / 255).permute(0, 3, 1, 2)
        for conv in self.conv:
            x = functional.max_pool2d(functional.relu(conv(x)), 2)
        # Flattened as it lies in NHWC: row, column, channel.
        x = x.permute(0, 2, 3, 1).flatten(1)
        return self.output(functional.relu(self.hidden(x)))


def norm(channels):
    return nn.BatchNorm2d(channels, eps=1e-5, momentum=0.1)


class ResidualBlock(nn.Module):
    """Two convolutions of 3x3, or one between two of 1x1, which has the stride; names are torchvision's."""

    def __init__(self, inputs, width, stride, has_bottleneck):
        super().__init__()
        self.outputs = 4 * width if has_bottleneck else width
        shapes = ([(inputs, width, 1, 1), (width, width, 3, stride), (width, self.outputs, 1, 1)] if has_bottleneck else
                  [(inputs, width, 3, stride), (width, width, 3, 1)])
        self.count = len(shapes)
        for i, (into, out, kernel, step) in enumerate(shapes, 1):
            self.add_module(f"conv{i}", nn.Conv2d(into, out, kernel, step, kernel // 2, bias=False))
            self.add_module(f"bn{i}", norm(out))
        self.downsample = None
        if stride != 1 or inputs != self.outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, self.outputs, 1, stride, bias=False), norm(self.outputs))

    def forward(self, x):
        branch = x if self.downsample is None else self.downsample(x)
        for i in range(1, self.count + 1):
            x = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x))
            x = functional.relu(x if i < self.count else x + branch)
        return x


class Resnet(nn.Module):
    """Pixels [B,H,W,C] in 0..255 -> logits [B,classes]: torchvision's ResNet, whose narrowest is too wide for a test."""

    DEPTHS = {10: ([1, 1, 1, 1], False), 14: ([1, 1, 1, 1], True), 18: ([2, 2, 2, 2], False), 26: ([2, 2, 2, 2], True),
              34: ([3, 4, 6, 3], False), 50: ([3, 4, 6, 3], True)}
    MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

    def __init__(self, depth=50, height=224, width=224, channels=3, filters=64, classes=1000):
        super().__init__()
        del height, width
        blocks, has_bottlenecks = self.DEPTHS[depth]
        self.conv1 = nn.Conv2d(channels, filters, 7, 2, 3, bias=False)
        self.bn1 = norm(filters)
        inputs = filters
        for stage, count in enumerate(blocks):
            layer = []
            for i in range(count):
                layer.append(ResidualBlock(inputs, filters << stage, 2 if stage and not i else 1, has_bottlenecks))
                inputs = layer[-1].outputs
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(inputs, classes)
        if channels != 3:
            self.MEAN, self.DEVIATION = (0.449,) * channels, (0.226,) * channels

    def forward(self, pixels):
        dtype = self.fc.weight.dtype
        # The factors as float, which programs have them in.
        factor = torch.tensor([1 / (255 * d) for d in self.DEVIATION], dtype=torch.float32).to(dtype)
        summand = torch.tensor([-m / d for m, d in zip(self.MEAN, self.DEVIATION)], dtype=torch.float32).to(dtype)
        x = (pixels.to(dtype) * factor + summand).permute(0, 3, 1, 2)
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(x.mean((2, 3)))


class Mlp(nn.Module):
    """Byte ids [B,window] -> logits [B,256]."""

    def __init__(self, window, embedding_dim, hidden_layers, hidden_dim):
        super().__init__()
        self.embedding = nn.Embedding(MLP_VOCABULARY, embedding_dim)
        widths = [window * embedding_dim] + [hidden_dim] * hidden_layers
        self.hidden = nn.ModuleList([nn.Linear(*pair) for pair in zip(widths, widths[1:])])
        self.output = nn.Linear(widths[-1], MLP_VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens).flatten(1)
        for linear in self.hidden:
            x = functional.gelu(linear(x), approximate="tanh")
        return self.output(x)


_MODELS = {"gpt": Gpt, "llama": Llama, "bert": Bert, "cnn": Cnn, "mlp": Mlp, "resnet": Resnet}


def build(config):
    """The model of `config`, with parameters still to be set."""
    return _MODELS[config["model"]](**config["settings"])


def tensors(model):
    """{NAME: tensor} of all that training changes: parameters, and running statistics."""
    return {**dict(model.named_parameters()),
            **{name: value for name, value in model.named_buffers() if "running_" in name}}


def mean_loss(logits, targets):
    """Mean cross entropy in nats over all targets, from logits converted to float, which favours bfloat16."""
    if logits.dtype == torch.bfloat16:
        logits = logits.float()
    return functional.cross_entropy(logits.reshape(-1, logits.size(-1)), targets.reshape(-1))
