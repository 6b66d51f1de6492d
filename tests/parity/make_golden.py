"""Makes the golden files in tests/parity/golden, with which tests compare our models where there is no PyTorch.

Regenerate, from the root of the repository, with Debian 12's python3-torch (1.13.1):
  /usr/bin/python3 -m tests.parity.make_golden            writes the files
  /usr/bin/python3 -m tests.parity.make_golden --check    compares with the files that are there; exit status 1 if they differ
  --out DIRECTORY                                           another directory

Everything is seeded, and computed in double by one thread, so that another machine gets the same to the last float or so.
cases.py says what a case file holds. Beside them:
  gpt2_tiny_hf/config.json, model.safetensors    a GPT-2 as Hugging Face's hub has `gpt2`: names without "transformer.", and
                                                 the masks h.N.attn.bias, which a reader has to leave out
  gpt2_tiny_hf_logits.safetensors                inputs I32 [2,T] and what that model makes of them: logits F32 [2,T,vocabulary]
"""

import argparse
import json
import pathlib
import sys
import tempfile

import numpy

from tests.parity import cases
from tests.parity import safetensors_file

GOLDEN = pathlib.Path(__file__).parent / "golden"
TOLERANCE = 1e-6  # relative to the larger of 1 and the value

CASES = {
    "gpt_adamw": ("gpt", {"vocabulary": 64, "window": 16, "layers": 2, "heads": 2, "width": 16}, 4, cases.ADAMW),
    # Widths that no vector register divides, and a norm that is clipped in every step.
    "gpt_clipped": ("gpt", {"vocabulary": 51, "window": 7, "layers": 1, "heads": 3, "width": 12}, 3,
                    {**cases.ADAMW, "clip_norm": 1.0}),
    "cnn_adamw": ("cnn", {"height": 12, "width": 8, "channels": 3, "filters": [4, 6], "hidden_dim": 16, "classes": 5}, 4,
                  cases.ADAMW),
    "mlp_adamw": ("mlp", {"window": 4, "embedding_dim": 4, "hidden_layers": 2, "hidden_dim": 12}, 6, cases.ADAMW),
    "mlp_sgd": ("mlp", {"window": 3, "embedding_dim": 4, "hidden_layers": 1, "hidden_dim": 8}, 6, cases.SGD),
    "llama_adamw": ("llama", {"vocabulary": 64, "window": 16, "layers": 2, "heads": 4, "kv_heads": 2, "width": 16, "hidden": 40,
                              "tied": 0}, 4, cases.ADAMW),
    "bert_adamw": ("bert", {"vocabulary": 64, "window": 24, "layers": 2, "heads": 2, "width": 16, "hidden": 40, "roberta": 0,
                            "padding": 0, "separator": 5, "mask": 63, "norm_epsilon": 1e-12, "classes": 0, "masked_share": 0.15},
                   4, cases.ADAMW),
    # With so few targets some gradients are near 0, see live_parity.py on epsilon.
    "roberta_classes_adamw": ("bert", {"vocabulary": 64, "window": 16, "layers": 2, "heads": 2, "width": 16, "hidden": 40,
                                       "roberta": 1, "padding": 1, "separator": 0, "mask": 63, "norm_epsilon": 1e-5, "classes": 3,
                                       "masked_share": 0.15}, 6, {**cases.ADAMW, "epsilon": 1e-6}),
    "resnet_sgd": ("resnet", {"depth": 10, "height": 40, "width": 36, "channels": 1, "filters": 4, "classes": 5}, 8,
                   {**cases.SGD, "learning_rate": 1e-5}),
}

_HF_SETTINGS = {"vocabulary": 48, "window": 16, "layers": 2, "heads": 2, "width": 12}
_HF_LLAMA = {"vocabulary": 48, "window": 16, "layers": 2, "heads": 4, "kv_heads": 2, "width": 24, "hidden": 20, "tied": 0}


def write_case(directory, name, seed):
    model, settings, batch, optimizer = CASES[name]
    case = cases.make_case(model, settings, batch, optimizer, seed)
    expected = cases.run(case, "fp64")
    if optimizer["clip_norm"] and expected["norms"].min() <= optimizer["clip_norm"]:
        sys.exit(f"{name}: a step is not clipped, so the case does not show that clipping works")
    torch_error = {precision: cases.errors_of(cases.run(case, precision), expected) for precision in ("fp32", "bf16")}
    stored = {key: value if key in ("loss", "losses", "norms") else value.astype(numpy.float32)
              for key, value in expected.items()}
    case.write(directory / f"{name}.safetensors", stored, torch_error)


def write_hugging_face_gpt2(directory):
    case = cases.make_case("gpt", _HF_SETTINGS, 2, cases.ADAMW, seed=100)
    window, width = _HF_SETTINGS["window"], _HF_SETTINGS["width"]
    tensors = {name[len("transformer."):]: value for name, value in case.parameters.items()}
    mask = numpy.tril(numpy.ones((1, 1, window, window), numpy.float32))
    for layer in range(_HF_SETTINGS["layers"]):
        tensors[f"h.{layer}.attn.bias"] = mask
    folder = directory / "gpt2_tiny_hf"
    folder.mkdir(exist_ok=True)
    safetensors_file.write(folder / "model.safetensors", tensors, {"format": "pt"})
    config = {
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
        "bos_token_id": _HF_SETTINGS["vocabulary"] - 1, "embd_pdrop": 0.1, "eos_token_id": _HF_SETTINGS["vocabulary"] - 1,
        "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": window, "n_embd": width,
        "n_head": _HF_SETTINGS["heads"], "n_layer": _HF_SETTINGS["layers"], "n_positions": window, "resid_pdrop": 0.1,
        "vocab_size": _HF_SETTINGS["vocabulary"],
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    logits = cases.run(case, "fp64")["logits"].astype(numpy.float32)
    safetensors_file.write(directory / "gpt2_tiny_hf_logits.safetensors",
                           {"inputs": case.batches["inputs"], "logits": logits})


def write_hugging_face_llama(directory):
    case = cases.make_case("llama", _HF_LLAMA, 2, cases.ADAMW, seed=101)
    tensors = dict(case.parameters)
    half = _HF_LLAMA["width"] // _HF_LLAMA["heads"] // 2
    for layer in range(_HF_LLAMA["layers"]):
        # A constant that files of older versions have.
        tensors[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = (
            10000.0 ** (-numpy.arange(half) / half)).astype(numpy.float32)
    folder = directory / "llama_tiny_hf"
    folder.mkdir(exist_ok=True)
    safetensors_file.write(folder / "model.safetensors", tensors, {"format": "pt"})
    config = {
        "architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
        "hidden_size": _HF_LLAMA["width"], "initializer_range": 0.02, "intermediate_size": _HF_LLAMA["hidden"],
        "max_position_embeddings": _HF_LLAMA["window"], "model_type": "llama", "num_attention_heads": _HF_LLAMA["heads"],
        "num_hidden_layers": _HF_LLAMA["layers"], "num_key_value_heads": _HF_LLAMA["kv_heads"], "rms_norm_eps": 1e-05,
        "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": False, "vocab_size": _HF_LLAMA["vocabulary"],
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    logits = cases.run(case, "fp64")["logits"].astype(numpy.float32)
    safetensors_file.write(directory / "llama_tiny_hf_logits.safetensors",
                           {"inputs": case.batches["inputs"], "logits": logits})


def generate(directory):
    directory.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(CASES):
        write_case(directory, name, seed)
    write_hugging_face_gpt2(directory)
    write_hugging_face_llama(directory)


def files_under(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def differences(made, committed):
    """One line for each thing that differs. PyTorch's own errors may: they depend on the processor."""
    if files_under(made) != files_under(committed):
        yield f"files: made {files_under(made)}, committed {files_under(committed)}"
        return
    for name in files_under(made):
        if not name.endswith(".safetensors"):
            if (made / name).read_bytes() != (committed / name).read_bytes():
                yield f"{name}: differs"
            continue
        ours, metadata = safetensors_file.read(made / name)
        theirs, committed_metadata = safetensors_file.read(committed / name)
        if metadata.get("config") != committed_metadata.get("config"):
            yield f"{name}: made with config {metadata.get('config')}, committed {committed_metadata.get('config')}"
        for key in sorted(ours.keys() | theirs.keys()):
            if key not in ours or key not in theirs or ours[key].shape != theirs[key].shape:
                yield f"{name}: {key} is missing or has another shape"
                continue
            a, b = ours[key].astype(numpy.float64), theirs[key].astype(numpy.float64)
            worst = (numpy.abs(a - b) / numpy.maximum(1, numpy.abs(b))).max()
            if not worst <= TOLERANCE:
                yield f"{name}: {key} is off by {worst:.2g}"


def main():
    parser = argparse.ArgumentParser(description="Makes the golden files of the parity tests.")
    parser.add_argument("--out", type=pathlib.Path, default=GOLDEN)
    parser.add_argument("--check", action="store_true", help="compare with the files in --out, write nothing there")
    args = parser.parse_args()
    if not args.check:
        generate(args.out)
        print(f"{sum((args.out / name).stat().st_size for name in files_under(args.out))} bytes in {args.out}")
        return 0
    with tempfile.TemporaryDirectory() as directory:
        made = pathlib.Path(directory)
        generate(made)
        found = list(differences(made, args.out))
    print("\n".join(found) or "the golden files are as PyTorch makes them")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
