"""The models of step_vs_torch, and its sides: programs that train one of them and are timed.

  SIDE --model=gpt2-124m|cnn|mlp --batch=N --steps=N --precision=bf16|tf32|fp32

It builds the model, warms up (compiles, tunes), and then talks in lines, JSON objects on its standard output, other lines are
passed over:

  {"ready": {"name": "PyTorch 2.11", "settings": "max-autotune, ..."}}      once, when it can be timed
  {"round": {"seconds": 1.03}}        for each line "round" of its input: --steps training steps of --batch samples, forward,
                                      backward and AdamW, each on another batch (PyTorch's is on the GPU already); from a
                                      synchronised GPU to a synchronised GPU; "computed_seconds": 1.02 beside it, where a
                                      side knows, in which its passes and updates ran, by the GPU's clock
  {"profile": {"steps": 3, "kernels": [["nvjet_...", 36, 61.2], ...]}}      for a line "profile": each kernel and copy of so
                                      many steps by name, how often, and microseconds together; {"why": "..."} instead if it
                                      cannot tell, "lost": 5 beside it for those of which it has no time
  {"end": {"peak_memory_gib": 51.3, "loss": 9.8}}      when its input ends; then it exits with 0

It exits with 2 and a line on standard error where it cannot run: no PyTorch, no GPU. Any other status is a failure.
"""

import collections

# flops: of a unit, forward and backward. steps: of a round, about a second on an H200. share: of the time that all models have.
class Model(collections.namedtuple("Model", "name title unit batch units_of_sample steps flops share settings")):
    def title_of(self, batch=0):
        """For tables; the batch is the model's own unless given."""
        return self.title.format(batch=batch or self.batch)


GPT2 = {"vocabulary": 50257, "window": 1024, "layers": 12, "heads": 12, "width": 768}
GPT2_PARAMETERS = 124_439_808
CNN = {"height": 28, "width": 28, "channels": 1, "filters": [32, 64], "hidden_dim": 128, "classes": 10}
MLP = {"window": 16, "embedding_dim": 32, "hidden_layers": 2, "hidden_dim": 256}


def gpt_flops(parameters, layers, width, tokens):
    """FLOPs of a token: 6 N for the products with parameters and 6 L C T for causal attention's, as llm.c counts."""
    return 6 * parameters + 6 * layers * width * tokens


def cnn_flops(height, width, channels, filters, hidden_dim, classes):
    """FLOPs of an image: three products (forward, gradients of weights and of inputs) of two operations each."""
    products = 0
    for inputs, outputs in zip([channels] + filters, filters):
        products += height * width * 9 * inputs * outputs
        height, width = height // 2, width // 2
    return 6 * (products + height * width * filters[-1] * hidden_dim + hidden_dim * classes)


def mlp_flops(window, embedding_dim, hidden_layers, hidden_dim):
    widths = [window * embedding_dim] + [hidden_dim] * hidden_layers + [256]
    return 6 * sum(inputs * outputs for inputs, outputs in zip(widths, widths[1:]))


MODELS = {
    model.name: model
    for model in [
        Model("gpt2-124m", "GPT-2 124M, B={batch} T=1024", "tokens/s", 64, GPT2["window"], 10,
              gpt_flops(GPT2_PARAMETERS, GPT2["layers"], GPT2["width"], GPT2["window"]), 0.7, GPT2),
        Model("cnn", "cnn 28x28, filters 32 and 64, B={batch}", "images/s", 4096, 1, 200, cnn_flops(**CNN), 0.15, CNN),
        Model("mlp", "mlp 512-256-256-256, B={batch}", "samples/s", 16384, 1, 500, mlp_flops(**MLP), 0.15, MLP),
    ]
}

# Peak TFLOP/s of dense products in bf16, and in fp32 without tensor cores (tf32 is half of bf16), from NVIDIA's data sheets.
# The first name that is part of the GPU's counts.
PEAKS = [("B200", 2250, 80), ("H200", 989.4, 67), ("H100 PCIe", 756, 51), ("H100 NVL", 835, 60), ("H100", 989.4, 67), ("L40S", 362, 91.6),
         ("A100", 312, 19.5)]


def peak_flops(gpu, precision):
    """Peak FLOPs a second of the GPU of that name; None if they are not known."""
    for name, bf16, fp32 in PEAKS:
        if name in gpu:
            return 1e12 * {"bf16": bf16, "tf32": bf16 / 2, "fp32": fp32}[precision]
    return None
