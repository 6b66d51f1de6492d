"""Jobs for integration tests: models so small that their steps take milliseconds, as text to submit.

    job_id = cluster.submit(gpt_job(text_path, workers=3, steps=60, micro_batch=4))
"""

import json
import re

TINY_GPT = {"window": 32, "layers": 2, "heads": 2, "width": 32}
TINY_CNN = {"height": 8, "width": 8, "filters": [8, 16], "hidden_dim": 32}


def _flow(value):
    """A value in YAML's flow style; words, enum values included, are bare."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return value if isinstance(value, str) and re.fullmatch(r"[\w./-]+", value) else json.dumps(value)


def train_job(model, data, workers=1, name="job", **train):
    """`workers` is a number or (min, max); `train` has further fields of TrainProgram."""
    low, high = workers if isinstance(workers, tuple) else (workers, workers)
    fields = {"model": model, "data": data, "optimizer": {"adamw": {"learning_rate": 0.003}}, "steps": 40,
              "global_batch": 24, "seed": 7, **train}
    lines = [f"name: {name}", f"workers: {{min: {low}, max: {high}, settle: 300ms}}", "train:"]
    return "\n".join(lines + [f"  {key}: {_flow(value)}" for key, value in fields.items()]) + "\n"


def gpt_job(path, workers=1, gpt=None, **train):
    """A tiny GPT on the bytes of the text at `path`; `gpt` has other settings of the model."""
    data = train.pop("data", {"text": {"path": str(path)}})
    return train_job({"gpt": {**TINY_GPT, **(gpt or {})}}, data, workers, **train)


def cnn_job(images, labels, workers=1, cnn=None, **train):
    """A tiny CNN on the images of data_files.write_images; `data` has further fields of the source."""
    data = {"images": {"images": str(images), "labels": str(labels), **train.pop("data", {})}}
    return train_job({"cnn": {**TINY_CNN, **(cnn or {})}}, data, workers, **train)
