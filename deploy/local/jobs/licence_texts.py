#!/usr/bin/env python3
"""Writes the data of roberta-classify.yaml: pieces of the licences that every Debian has, and which licence each is from.

  deploy/local/jobs/licence_texts.py DIRECTORY

It writes train.csv and evaluation.csv (text, label), and a small vocabulary of the kind that RoBERTa has, vocab.json and
merges.txt, made from the training texts. Nothing is random.
"""

import collections
import csv
import json
import pathlib
import sys

LICENCES = pathlib.Path("/usr/share/common-licenses")
LABELS = ["Apache-2.0", "Artistic", "GFDL-1.3", "GPL-3", "MPL-2.0"]
WORDS = 24  # of a text
STRIDE = 6  # words from one training text to the next
SECTION = 120  # words, of which every fifth section is held out
MERGES = 400


def pieces(words, stride):
    return [" ".join(words[i:i + WORDS]) for i in range(0, max(1, len(words) - WORDS + 1), stride)]


def texts():
    """Two lists of (text, label): for training, and held out."""
    training, held_out = [], []
    for label in LABELS:
        words = (LICENCES / label).read_text(encoding="utf-8").split()
        for number, begin in enumerate(range(0, len(words), SECTION)):
            section = words[begin:begin + SECTION]
            if number % 5 == 4:
                held_out += [(text, label) for text in pieces(section, WORDS)]
            else:
                training += [(text, label) for text in pieces(section, STRIDE)]
    return training, held_out


def byte_characters():
    """The character that stands for each byte in GPT-2's and RoBERTa's files."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def learn_merges(training):
    """The pairs that are the most frequent in words, one after the other (Sennrich et al., 2016)."""
    characters = byte_characters()
    words = collections.Counter(word for text, _ in training for word in text.split())
    parts = {word: [characters[byte] for byte in (" " + word).encode()] for word in words}
    merges = []
    while len(merges) < MERGES:
        pairs = collections.Counter()
        for word, count in words.items():
            for pair in zip(parts[word], parts[word][1:]):
                pairs[pair] += count
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        for word, old in parts.items():
            new = []
            for part in old:
                if new and (new[-1], part) == best:
                    new[-1] += part
                else:
                    new.append(part)
            parts[word] = new
    return merges


def write_vocabulary(directory, merges):
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *byte_characters().values(), *dict.fromkeys(map("".join, merges)), "<mask>"]
    ids = {token: i for i, token in enumerate(tokens)}
    (directory / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    lines = "".join(f"{left} {right}\n" for left, right in merges)
    (directory / "merges.txt").write_text("#version: 0.2\n" + lines, encoding="utf-8")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    training, held_out = texts()
    for name, rows in (("train.csv", training), ("evaluation.csv", held_out)):
        with open(directory / name, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("text", "label"))
            writer.writerows(rows)
    write_vocabulary(directory, learn_merges(training))
    print(f"{len(training)} texts to train on and {len(held_out)} held out in {directory}")


if __name__ == "__main__":
    main()
