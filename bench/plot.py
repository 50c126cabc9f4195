"""plot.py - charts as SVG, with nothing but text in them: bars on a logarithmic scale, and curves."""

import math
from html import escape

FONT = 'font-family="sans-serif" font-size="13"'
COLOURS = ["#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#57606a"]


def short(n):
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if n >= size:
            return ("%.3g" % (n / size)) + unit
    return "%.3g" % n


def page(width, height, parts):
    return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" %s>'
            '<rect width="100%%" height="100%%" fill="#fff"/>%s</svg>\n'
            % (width, height, FONT, "".join(parts)))


def text(x, y, words, anchor="start", extra=""):
    return '<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>' % (
        x, y, anchor, extra, escape(words))


def bars(path, title, rows):
    """rows: (label, value, whether it is ours)."""
    left, width, step = 330, 860, 22
    low = min(v for _, v, _ in rows) / 2
    high = max(v for _, v, _ in rows) * 2
    parts = [text(10, 22, title, extra='font-weight="bold"')]
    for i, (label, value, ours) in enumerate(rows):
        y = 40 + i * step
        length = (width - left - 90) * math.log(value / low) / math.log(high / low)
        parts.append(text(left - 8, y + 13, label, "end"))
        parts.append('<rect x="%d" y="%d" width="%.1f" height="16" fill="%s"/>' %
                     (left, y, length, COLOURS[0] if ours else "#8c959f"))
        parts.append(text(left + length + 6, y + 13, short(value)))
    with open(path, "w") as f:
        f.write(page(width, 50 + len(rows) * step, parts))


def curves(path, title, x_name, y_name, series):
    """series: {label: [(x, y), ...]}; x is drawn on a logarithmic scale, y from 0."""
    width, height, left, bottom = 760, 420, 80, 60
    points = [p for s in series.values() for p in s]
    x0, x1 = math.log(min(x for x, _ in points)), math.log(max(x for x, _ in points))
    y1 = max(y for _, y in points) * 1.1 or 1

    def at(x, y):
        return (left + (width - left - 30) * (math.log(x) - x0) / ((x1 - x0) or 1),
                height - bottom - (height - bottom - 40) * y / y1)

    parts = [text(10, 22, title, extra='font-weight="bold"')]
    for i in range(6):
        _, y = at(math.exp(x0), y1 * i / 5)
        parts.append('<path d="M%d %.1fH%d" stroke="#d8dee4"/>' % (left, y, width - 30))
        parts.append(text(left - 6, y + 4, short(y1 * i / 5), "end"))
    for x in sorted({x for x, _ in points}):
        parts.append(text(at(x, 0)[0], height - bottom + 18, short(x), "middle"))
    parts.append(text(width / 2, height - 12, x_name, "middle"))
    parts.append(text(left, 38, y_name))
    for i, (label, values) in enumerate(series.items()):
        line = " ".join("%.1f,%.1f" % at(*p) for p in values)
        parts.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>' %
                     (line, COLOURS[i % len(COLOURS)]))
        parts.append(text(width - 34, 44 + 17 * i, label, "end",
                          'fill="%s"' % COLOURS[i % len(COLOURS)]))
    with open(path, "w") as f:
        f.write(page(width, height, parts))
