#!/usr/bin/env python3
"""Draws a captured terminal screen as an SVG picture.

usage: tmux capture-pane -e -p | docs/images/terminal_to_svg.py > docs/images/run.svg

Knows what our programs write: text, bold, dim and the sixteen colours.
"""

import html
import re
import sys

CHAR_WIDTH, LINE_HEIGHT, MARGIN = 8.4, 18, 14
COLOURS = ["#3b4048", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#dcdfe4"]
BACKGROUND, TEXT = "#1e2127", "#dcdfe4"


def apply_codes(style, codes):
    for code in [int(c or 0) for c in codes.split(";")]:
        if code == 0:
            style.clear()
        elif code == 1:
            style["font-weight"] = "bold"
        elif code == 2:
            style["opacity"] = "0.6"
        elif code == 22:
            style.pop("font-weight", None)
            style.pop("opacity", None)
        elif code == 39:
            style.pop("fill", None)
        elif 30 <= code <= 37 or 90 <= code <= 97:
            style["fill"] = COLOURS[code % 10]


def draw_line(line, y, style):
    spans, column = [], 0
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b"):
            apply_codes(style, part[2:-1])
        elif part:
            attributes = "".join(f' {name}="{value}"' for name, value in style.items())
            x = MARGIN + column * CHAR_WIDTH
            spans.append(f'<tspan x="{x:.1f}" textLength="{len(part) * CHAR_WIDTH:.1f}"{attributes}>'
                         f"{html.escape(part)}</tspan>")
            column += len(part)
    return f'<text y="{y}" xml:space="preserve">{"".join(spans)}</text>'


def main():
    lines = sys.stdin.read().rstrip("\n").split("\n")
    columns = max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in lines)
    width, height = 2 * MARGIN + columns * CHAR_WIDTH, 2 * MARGIN + len(lines) * LINE_HEIGHT
    style = {}
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
          f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="{TEXT}">')
    print(f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>')
    for index, line in enumerate(lines):
        print(draw_line(line, MARGIN + (index + 0.75) * LINE_HEIGHT, style))
    print("</svg>")


if __name__ == "__main__":
    main()
