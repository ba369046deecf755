"""Draws a recording of a terminal, in asciinema's format, as a picture that moves: svg.py CAST >SVG.

Each moment at which the screen changes is a group of rows that CSS shows in its turn. Equal rows are drawn once. A reader who asks for less
motion sees the last moment.
"""

import json
import sys
from html import escape

import pyte

CELL = (8.4, 18)  # width and height of a character, in pixels
MARGIN = 14
APART = 0.08  # seconds: changes that are nearer to each other are one moment
REST = 3.0  # seconds that the last moment stays
COLOURS = {"default": "#d8dee9", "red": "#ff7b72", "green": "#7ee787", "brown": "#e3b341", "blue": "#79c0ff", "magenta": "#d2a8ff", "cyan": "#76e3ea", "white": "#ffffff"}


def moments(cast):
    """The times since the first change of the screen at which it changes, each with its rows, and the size of the screen."""
    header, *events = [json.loads(line) for line in cast]
    screen = pyte.Screen(header["width"], header["height"])
    stream = pyte.Stream(screen)
    found = []
    for at, kind, text in events:
        if kind != "o":
            continue
        stream.feed(text)
        if found and at - found[-1][0] < APART:
            at = found.pop()[0]
        found.append((at, [row(screen.buffer[y], screen.columns) for y in range(screen.lines)]))
    return [(at - found[0][0], rows) for at, rows in found], header["width"], header["height"]


def row(cells, columns):
    """The text elements of a row: runs of characters with one colour."""
    runs = []
    for x in range(columns):
        cell = cells[x]
        style = (COLOURS.get(cell.fg, COLOURS["default"]), cell.bold)
        if runs and runs[-1][1] == style:
            runs[-1][2] += cell.data
        else:
            runs.append([x, style, cell.data])
    text = ""
    for x, (colour, bold), data in runs:
        if data.strip():
            weight = ' font-weight="bold"' if bold else ""
            text += f'<tspan x="{x * CELL[0]:.1f}" fill="{colour}"{weight}>{escape(data.rstrip())}</tspan>'
    return text


def draw(found, columns, lines):
    width = columns * CELL[0] + 2 * MARGIN
    height = lines * CELL[1] + 2 * MARGIN
    whole = found[-1][0] + REST
    kinds = {}
    for _, rows in found:
        for text in filter(None, rows):
            kinds.setdefault(text, f"r{len(kinds)}")
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="gorun in a terminal">')
    print("<style>text{font:14px ui-monospace,Menlo,Consolas,monospace;white-space:pre}.m{visibility:hidden}")
    for i, (at, _) in enumerate(found):
        end = found[i + 1][0] if i + 1 < len(found) else whole
        print(f"@keyframes k{i}{{{100 * at / whole:.2f}%{{visibility:visible}}{100 * end / whole:.2f}%{{visibility:hidden}}}}")
        print(f"#m{i}{{animation:k{i} {whole:.1f}s step-end infinite}}")
    print(f"@media(prefers-reduced-motion){{.m{{animation:none!important}}#m{len(found) - 1}{{visibility:visible}}}}</style>")
    print(f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/><defs>')
    for text, name in kinds.items():
        print(f'<text id="{name}">{text}</text>')
    print("</defs>")
    for i, (_, rows) in enumerate(found):
        uses = "".join(f'<use href="#{kinds[text]}" x="{MARGIN}" y="{MARGIN + CELL[1] * (y + 0.75):.0f}"/>' for y, text in enumerate(rows) if text)
        print(f'<g class="m" id="m{i}">{uses}</g>')
    print("</svg>")


with open(sys.argv[1], encoding="utf-8") as cast:
    draw(*moments(cast))
