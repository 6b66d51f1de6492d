"""Small data sets for integration tests, in the formats that workers read; made from a seed, so the same everywhere.

    text = write_text(directory / "text")
    images, labels = write_images(directory, count=512)
    pictures = write_pictures(directory / "pictures", count=512)
    train = write_tokens(directory / "train.bin", token_chain(20000, vocabulary=64))
    vocab, merges = write_tokenizer(directory, text, merges=50)

All can be learned: images of a class are noisy copies of one pattern, and a token mostly follows from the one before.
"""

import array
import collections
import gzip
import json
import pathlib
import random
import re
import struct
import sys
import tempfile
import unittest
import zlib

LLM_C_MAGIC = 20240520
LLM_C_VERSION = 1
IDX_IMAGES = 0x00000803
IDX_LABELS = 0x00000801
END_OF_TEXT = "<|endoftext|>"


def steps_of(directory):
    """The steps of the checkpoints in a directory."""
    return sorted(int(path.name.removeprefix("step-")) for path in directory.glob("step-*"))


class TextTest(unittest.TestCase):
    """Tests of jobs that train on `text` and may write `checkpoints`, in a `directory` that ends with the test."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)
        self.checkpoints = self.directory / "checkpoints"
        self.text = write_text(self.directory / "text")


def _write(path, contents, compress=False):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(contents, mtime=0) if compress else contents)
    return path


def sentences(size, seed=1):
    """At least `size` bytes of text in a small language."""
    rng = random.Random(seed)
    names = ("the worker", "a rank", "the coordinator", "every peer", "the ring")
    verbs = ("sends", "sums", "waits for", "keeps", "counts")
    things = ("a bucket", "the gradients", "a step", "two samples", "the batch")
    text = ""
    while len(text) < size:
        text += f"{rng.choice(names)} {rng.choice(verbs)} {rng.choice(things)}.\n"
    return text


def write_text(path, size=20000, seed=1):
    return _write(path, sentences(size, seed).encode())


def idx_images(count, height, width, pixels):
    """An IDX file of images; `pixels` has height * width bytes for each."""
    return struct.pack(">4I", IDX_IMAGES, count, height, width) + bytes(pixels)


def idx_labels(labels):
    return struct.pack(">2I", IDX_LABELS, len(labels)) + bytes(labels)


def noisy_patterns(count, height, width, classes, noise, seed):
    """The labels of images and all their pixels.

    The patterns are the same for every seed, so that what is learned from one set holds for another.
    """
    patterns = random.Random(f"patterns {classes} {height} {width}")
    pixels_of_class = [[patterns.choice((40, 215)) for _ in range(height * width)] for _ in range(classes)]
    rng = random.Random(seed)
    labels = [i % classes for i in range(count)]
    rng.shuffle(labels)
    pixels = bytearray()
    for label in labels:
        pixels += bytes(min(255, max(0, p + rng.randint(-noise, noise))) for p in pixels_of_class[label])
    return labels, bytes(pixels)


def write_images(directory, prefix="train", count=256, height=8, width=8, classes=10, noise=48, seed=1, compress=False):
    """Writes PREFIX-images and PREFIX-labels; returns the two paths."""
    labels, pixels = noisy_patterns(count, height, width, classes, noise, seed)
    directory = pathlib.Path(directory)
    suffix = ".gz" if compress else ""
    return (
        _write(directory / f"{prefix}-images{suffix}", idx_images(count, height, width, pixels), compress),
        _write(directory / f"{prefix}-labels{suffix}", idx_labels(labels), compress),
    )


def grey_png(height, width, pixels):
    def chunk(kind, contents):
        return struct.pack(">I", len(contents)) + kind + contents + struct.pack(">I", zlib.crc32(kind + contents))

    rows = b"".join(b"\0" + pixels[i:i + width] for i in range(0, height * width, width))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_pictures(directory, count=256, side=8, classes=10, noise=48, seed=1):
    """Writes the images as LABEL/NUMBER.png; returns the directory."""
    labels, pixels = noisy_patterns(count, side, side, classes, noise, seed)
    for number, label in enumerate(labels):
        begin = number * side * side
        _write(pathlib.Path(directory) / str(label) / f"{number}.png", grey_png(side, side, pixels[begin:begin + side * side]))
    return pathlib.Path(directory)


def token_chain(count, vocabulary=64, seed=1):
    """Tokens of which seven in eight follow from the one before by a fixed permutation."""
    successor = list(range(vocabulary))
    random.Random(f"successors {vocabulary}").shuffle(successor)
    rng = random.Random(seed)
    tokens = [rng.randrange(vocabulary)]
    while len(tokens) < count:
        is_by_rule = rng.random() < 7 / 8
        tokens.append(successor[tokens[-1]] if is_by_rule else rng.randrange(vocabulary))
    return tokens


def write_tokens(path, tokens, header=True):
    """Writes 16-bit tokens as llm.c does, or without `header` as nanoGPT does; returns the path."""
    words = array.array("H", tokens)
    if sys.byteorder == "big":
        words.byteswap()
    contents = words.tobytes()
    if header:
        contents = struct.pack("<256i", LLM_C_MAGIC, LLM_C_VERSION, len(tokens), *[0] * 253) + contents
    return _write(path, contents)


def byte_symbols():
    """The character that stands for each byte in a byte-level BPE's files."""
    own = set(range(ord("!"), ord("~") + 1)) | set(range(0xA1, 0xAD)) | set(range(0xAE, 0x100))
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in own else chr(next(others)) for byte in range(256)]


def learn_merges(text, count):
    """The `count` most useful merges for `text`, or fewer if it has no more pairs; words are split as ASCII text is."""
    symbols = byte_symbols()
    words = collections.Counter(re.findall(r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s", text))
    parts = {word: [symbols[byte] for byte in word.encode()] for word in words}
    merges = []
    while len(merges) < count:
        pairs = collections.Counter()
        for word, part in parts.items():
            for pair in zip(part, part[1:]):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        for part in parts.values():
            i = 0
            while i + 1 < len(part):
                if (part[i], part[i + 1]) == best:
                    part[i : i + 2] = ["".join(best)]
                i += 1
    return merges


def write_tokenizer(directory, text, merges=50):
    """Writes vocab.json and merges.txt, learned from `text`; returns the two paths.

    The vocabulary is the 256 bytes, each different result of a merge, and "<|endoftext|>".
    """
    learned = learn_merges(text, merges)
    tokens = list(dict.fromkeys(byte_symbols() + [left + right for left, right in learned] + [END_OF_TEXT]))
    vocabulary = {token: number for number, token in enumerate(tokens)}
    directory = pathlib.Path(directory)
    lines = ["#version: 0.2"] + [f"{left} {right}" for left, right in learned]
    return (
        _write(directory / "vocab.json", json.dumps(vocabulary, ensure_ascii=False).encode()),
        _write(directory / "merges.txt", ("\n".join(lines) + "\n").encode()),
    )


def vocabulary_size(vocab_path):
    return len(json.loads(pathlib.Path(vocab_path).read_text()))
