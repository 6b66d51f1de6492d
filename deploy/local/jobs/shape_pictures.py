#!/usr/bin/env python3
"""Draws the data of resnet-images.yaml: pictures of shapes, in a directory for each.

  deploy/local/jobs/shape_pictures.py DIRECTORY

It writes train/SHAPE/*.png and evaluation/SHAPE/*.png. Shapes have any place, size, angle and colour, on a noisy ground.
They are drawn from a seed: the same on every machine.
"""

import math
import pathlib
import random
import struct
import sys
import zlib

SIDE = 48  # pixels
TRAINING, HELD_OUT = 300, 60  # pictures of a shape
NOISE = 28


def is_in_polygon(corners):
    """Whether a point is in the regular polygon whose corners are at a distance of 1."""
    inner = math.cos(math.pi / corners)

    def inside(x, y):
        angle = math.atan2(y, x) % (2 * math.pi / corners) - math.pi / corners
        return math.hypot(x, y) * math.cos(angle) < inner

    return inside


# By the shape's own coordinates: whether a point is in it.
SHAPES = {
    "bar": lambda x, y: abs(x) < 1 and abs(y) < 0.25,
    "cross": lambda x, y: max(abs(x), abs(y)) < 1 and min(abs(x), abs(y)) < 0.3,
    "crescent": lambda x, y: math.hypot(x, y) < 1 and math.hypot(x - 0.5, y) > 0.8,
    "disc": lambda x, y: math.hypot(x, y) < 0.9,
    "ring": lambda x, y: 0.55 < math.hypot(x, y) < 1,
    "square": is_in_polygon(4),
    "triangle": is_in_polygon(3),
    "two_discs": lambda x, y: math.hypot(abs(x) - 0.55, y) < 0.4,
}


def draw(inside, rng):
    """SIDE rows of SIDE RGB pixels."""
    ground = [rng.randint(40, 215) for _ in range(3)]
    colour = list(ground)
    while sum(abs(a - b) for a, b in zip(ground, colour)) < 150:
        colour = [rng.randint(40, 215) for _ in range(3)]
    size = rng.uniform(0.25, 0.4) * SIDE
    column, row = (rng.uniform(0.4, 0.6) * SIDE for _ in range(2))
    angle = rng.uniform(0, 2 * math.pi)
    cos, sin = math.cos(angle) / size, math.sin(angle) / size
    rows = []
    for i in range(SIDE):
        pixels = bytearray()
        for j in range(SIDE):
            x, y = j - column, i - row
            base = colour if inside(x * cos + y * sin, y * cos - x * sin) else ground
            pixels += bytes(min(255, max(0, value + rng.randint(-NOISE, NOISE))) for value in base)
        rows.append(bytes(pixels))
    return rows


def png(rows):
    def chunk(kind, contents):
        return struct.pack(">I", len(contents)) + kind + contents + struct.pack(">I", zlib.crc32(kind + contents))

    header = struct.pack(">2I5B", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    for part, count in (("train", TRAINING), ("evaluation", HELD_OUT)):
        for shape, inside in SHAPES.items():
            directory = root / part / shape
            directory.mkdir(parents=True, exist_ok=True)
            rng = random.Random(f"{part} {shape}")
            for number in range(count):
                (directory / f"{number:03}.png").write_bytes(png(draw(inside, rng)))
    print(f"{TRAINING} pictures of each of {len(SHAPES)} shapes to train on and {HELD_OUT} held out in {root}")


if __name__ == "__main__":
    main()
