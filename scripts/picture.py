#!/usr/bin/env python3
"""Draws a terminal's text as an SVG picture.

    homeostat demo --once | scripts/picture.py 'homeostat demo --once' > docs/demo.svg

The text is taken as it is; nothing is invented, left out or coloured by meaning beyond its first mark.
"""

import sys
from html import escape

# A line's height and a letter's width at this font size, in pixels.
SIZE, LINE, LETTER, MARGIN = 13, 18, 7.85, 16
# Longer lines are cut: a picture that must be scrolled is none.
COLUMNS_MAX = 118


def main() -> None:
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    lines = [line.rstrip() for line in sys.stdin.read().splitlines()]
    if command:
        lines.insert(0, "$ " + command)
    lines = [line if len(line) <= COLUMNS_MAX else line[: COLUMNS_MAX - 1] + "…" for line in lines]
    width = int(max(len(line) for line in lines) * LETTER + 2 * MARGIN)
    height = len(lines) * LINE + 2 * MARGIN
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">')
    print(f'<rect width="{width}" height="{height}" rx="8" fill="#16181d"/>')
    print(f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{SIZE}" fill="#d6dae2" xml:space="preserve">')
    for at, line in enumerate(lines):
        y = MARGIN + SIZE + at * LINE
        colour = ' fill="#8fd18f"' if at == 0 and command else ""
        print(f'<text x="{MARGIN}" y="{y}"{colour}>{escape(line)}</text>')
    print("</g>\n</svg>")


if __name__ == "__main__":
    main()
