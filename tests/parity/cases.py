"""Parity cases: a model, its initial parameters and batches, and what PyTorch makes of them.

A case is a safetensors file. Its tensors:
  param/NAME      F32  initial parameters
  inputs          I32 [B,tokens], or U8 [B,height,width,channels] for the cnn and the resnet
  targets         I32 [B,T] for the gpt, [B,masked] for a bert of masked tokens, [B] for the others
  steps/inputs, steps/targets   the same with [10] before, the batches of 10 optimizer steps from the initial parameters
What is expected, computed in double (computed, not needed, where a program is asked for it):
  logits          F32 [B,...,classes] of `inputs`
  loss            F64 [1], the mean over targets
  grad/NAME       F32, of `loss`; running statistics, which are among the parameters, have none
  losses, norms   F64 [10], of each step before its update: the loss, and the norm of the whole gradient before clipping
  after/NAME      F32, parameters after the steps. The middle third of after/...c_attn.bias is not to be compared, nor is
                  anything of ...self.key.bias: attention does not depend on a bias of the keys, so that its gradient is 0
                  except for rounding, and AdamW makes steps of a good size out of rounding
Its metadata, each a JSON text:
  config          {"model", "settings", "batch", "steps", "optimizer": {"kind", "learning_rate", "weight_decay", "clip_norm",
                  and "beta1", "beta2", "epsilon" of adamw, "momentum" of sgd}}; clip_norm 0 is no clipping
  torch_error     {"fp32": {NAME: error}, "bf16": {...}}: how far PyTorch itself is off in that precision (see errors_of).
                  The yardstick for a program that computes in the same.

SGD is PyTorch's: g += weight_decay * p; m = momentum * m + g; p -= learning_rate * m. Weight decay of AdamW is decoupled.
"""

import json

import numpy
import torch

from tests.parity import safetensors_file
from tests.parity import torch_models

STEPS = 10
ADAMW = {"kind": "adamw", "learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "weight_decay": 0.01,
         "clip_norm": 0.0}
SGD = {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.01, "clip_norm": 0.0}


class Case:
    """config: see above; parameters: {NAME: float32 array}; batches: inputs, targets, steps/inputs, steps/targets."""

    def __init__(self, config, parameters, batches):
        self.config = config
        self.parameters = parameters
        self.batches = batches

    def tensors(self):
        return {**{"param/" + name: value for name, value in self.parameters.items()}, **self.batches}

    def write(self, path, expected=None, torch_error=None):
        metadata = {"format": "ringmaster-parity-1", "config": json.dumps(self.config, sort_keys=True)}
        if torch_error:
            metadata["torch_error"] = json.dumps(torch_error, sort_keys=True)
        safetensors_file.write(path, {**self.tensors(), **(expected or {})}, metadata)

    @staticmethod
    def read(path):
        tensors, metadata = safetensors_file.read(path)
        parameters = {name[len("param/"):]: value for name, value in tensors.items() if name.startswith("param/")}
        batches = {name: tensors[name] for name in ("inputs", "targets", "steps/inputs", "steps/targets")}
        return Case(json.loads(metadata["config"]), parameters, batches)


def make_case(model, settings, batch, optimizer, seed):
    """A case with random parameters and batches: a function of the arguments."""
    config = {"model": model, "settings": settings, "batch": batch, "steps": STEPS, "optimizer": dict(optimizer)}
    rng = numpy.random.default_rng(seed)
    parameters = {name: _initial(name, tuple(value.shape), rng)
                  for name, value in torch_models.tensors(torch_models.build(config)).items()}
    batches = {}
    for prefix, shape in (("", (batch,)), ("steps/", (STEPS, batch))):
        batches[prefix + "inputs"], batches[prefix + "targets"] = _batch(model, settings, shape, rng)
    return Case(config, parameters, batches)


def _initial(name, shape, rng):
    """Wide enough that every part of the model matters to the loss, unlike the small weights that training starts from."""
    noise = rng.standard_normal(shape)
    if len(shape) == 1:
        is_gain = any(norm in name.lower() for norm in ("ln_", "norm", "bn", "downsample.1")) and name.endswith(".weight")
        value = 0.1 * noise + (1 if is_gain or name.endswith(".running_var") else 0)
    elif name in ("embedding.weight", "transformer.wte.weight", "transformer.wpe.weight", "model.embed_tokens.weight") or (
            "_embeddings." in name):
        value = 0.5 * noise
    else:
        is_conv1d = name.startswith("transformer.")
        fan_in = shape[0] if is_conv1d else numpy.prod(shape[1:])
        value = noise / numpy.sqrt(fan_in)
    return value.astype(numpy.float32)


def _batch(model, settings, shape, rng):
    if model in ("gpt", "llama"):
        tokens = rng.integers(settings["vocabulary"], size=shape + (settings["window"] + 1,), dtype=numpy.int32)
        return tokens[..., :-1], tokens[..., 1:]
    if model == "bert":
        return _texts(settings, shape, rng)
    if model == "mlp":
        tokens = rng.integers(torch_models.MLP_VOCABULARY, size=shape + (settings["window"] + 1,), dtype=numpy.int32)
        return tokens[..., :-1], tokens[..., -1]
    image = (settings["height"], settings["width"], settings["channels"])
    pixels = rng.integers(256, size=shape + image, dtype=numpy.uint8)
    return pixels, rng.integers(settings["classes"], size=shape, dtype=numpy.int32)


def _texts(settings, shape, rng):
    """Texts of all lengths of which some have two parts and their classes, or windows and their masked tokens."""
    window = settings["window"]
    tokens = rng.integers(settings["vocabulary"], size=shape + (window,), dtype=numpy.int32)
    if not settings["classes"]:
        flat = torch.from_numpy(tokens.reshape(-1, window))
        places, _ = torch_models.mask_tokens(flat, settings["vocabulary"], settings["mask"], settings["masked_share"])
        return tokens, torch.gather(flat, 1, places).numpy().reshape(shape + (-1,))
    lengths = rng.integers(1, window + 1, size=shape)
    tokens[numpy.arange(window) >= lengths[..., None]] = settings["padding"]
    return tokens, rng.integers(settings["classes"], size=shape, dtype=numpy.int32)


def run(case, precision):
    """What PyTorch gets: {logits, loss, grad/NAME, losses, norms, after/NAME} as float64 arrays.

    fp64 and fp32 are the type of everything; bf16 is float parameters under autocast.
    """
    torch.set_num_threads(1)  # sums have one order then
    model = _load(case, torch.float64 if precision == "fp64" else torch.float32)
    result = {}
    logits, loss = _forward(model, case.batches["inputs"], case.batches["targets"], precision)
    loss.backward()
    result["logits"] = _array(logits)
    result["loss"] = numpy.array([loss.item()])
    for name, parameter in model.named_parameters():
        result["grad/" + name] = _array(parameter.grad)
    # Anew, since a pass changes running statistics too.
    _run_steps(case, _load(case, torch.float64 if precision == "fp64" else torch.float32), precision, result)
    return result


def _run_steps(case, model, precision, result):
    settings = case.config["optimizer"]
    optimizer = make_optimizer(model, settings)
    losses, norms = [], []
    for inputs, targets in zip(case.batches["steps/inputs"], case.batches["steps/targets"]):
        optimizer.zero_grad()
        _, loss = _forward(model, inputs, targets, precision)
        loss.backward()
        norms.append(_clip(model, settings["clip_norm"] or float("inf")))
        optimizer.step()
        losses.append(loss.item())
    result["losses"] = numpy.array(losses)
    result["norms"] = numpy.array(norms)
    for name, value in torch_models.tensors(model).items():
        result["after/" + name] = _array(value)


def _clip(model, clip_norm):
    """Exactly, where torch.nn.utils.clip_grad_norm_ adds 1e-6 to the norm. Returns the norm."""
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item()
    if norm > clip_norm:
        for parameter in model.parameters():
            parameter.grad.mul_(clip_norm / norm)
    return norm


def make_optimizer(model, settings):
    if settings["kind"] == "sgd":
        return torch.optim.SGD(model.parameters(), lr=settings["learning_rate"], momentum=settings["momentum"],
                               weight_decay=settings["weight_decay"])
    return torch.optim.AdamW(model.parameters(), lr=settings["learning_rate"], eps=settings["epsilon"],
                             betas=(settings["beta1"], settings["beta2"]), weight_decay=settings["weight_decay"])


def _load(case, dtype):
    model = torch_models.build(case.config).to(dtype)
    model.load_state_dict({name: torch.from_numpy(value.astype(numpy.float64)) for name, value in case.parameters.items()})
    return model


def _forward(model, inputs, targets, precision):
    inputs = torch.from_numpy(inputs.copy())
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        logits = model(inputs if inputs.dtype == torch.uint8 else inputs.long())
    return logits, torch_models.mean_loss(logits, torch.from_numpy(targets.copy()).long())


def _array(tensor):
    return tensor.detach().double().numpy().copy()


def relative_error(value, expected):
    """||value - expected|| / ||expected||; of a zero `expected`, ||value||. Infinite if `value` is not finite."""
    if not numpy.isfinite(value).all():
        return float("inf")
    difference = numpy.linalg.norm(numpy.asarray(value, numpy.float64) - expected)
    size = numpy.linalg.norm(expected)
    return float(difference / size if size > 0 else difference)


def errors_of(result, expected):
    """{NAME: error} of every tensor: relative_error, and of losses and norms the largest difference."""
    errors = {}
    for name, value in expected.items():
        if result[name].shape != value.shape:
            raise ValueError(f"{name}: expected shape {list(value.shape)}, got {list(result[name].shape)}")
        if name in ("loss", "losses", "norms"):
            difference = numpy.abs(result[name] - value).max()
            errors[name] = float(difference) if numpy.isfinite(difference) else float("inf")
        else:
            errors[name] = relative_error(_comparable(name, result[name]), _comparable(name, value))
    return errors


def _comparable(name, value):
    """Without the keys' bias; see above."""
    if name.endswith("self.key.bias"):
        return value[:0]
    if not (name.startswith("after/") and name.endswith("c_attn.bias")):
        return value
    width = value.size // 3
    return numpy.concatenate([value[:width], value[2 * width:]])
