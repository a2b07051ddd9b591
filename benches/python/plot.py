"""Bar charts of rates as SVG for light and dark pages: each topic has a panel, and each client has a bar with its
rate.
"""

import math
from collections.abc import Mapping
from xml.etree import ElementTree as ET

NAMES = {
    "ours": "samsarrow",
    "confluent": "confluent-kafka",
    "aio": "aiokafka",
    "raw": "raw loop, no Arrow",
    "java, no Arrow": "Java, no Arrow",
}
# Sizes in pixels: total width, start and end of bars, height of a row, of a bar, of a panel's heading, and of its axis.
WIDTH, LEFT, RIGHT, ROW, BAR, HEAD, AXIS = 760, 190, 650, 26, 18, 30, 34
STYLE = """
svg { color: #1f2328; font: 13px system-ui, sans-serif; }
text { fill: currentColor; }
.title { font-size: 17px; font-weight: 600; }
.panel { font-weight: 600; }
.tick { font-size: 11px; opacity: .75; }
line { stroke: currentColor; stroke-opacity: .2; }
rect { fill: currentColor; fill-opacity: .55; }
.ours { fill: #0969da; fill-opacity: 1; }
.bare { fill-opacity: .12; stroke: currentColor; stroke-opacity: .6; }
.page { fill: #ffffff; fill-opacity: 1; }
@media (prefers-color-scheme: dark) {
  svg { color: #e6edf3; }
  .ours { fill: #4493f8; }
  .page { fill: #0d1117; }
}
"""
Element = ET.Element


def bars(title: str, panels: Mapping[str, Mapping[str, float]]) -> str:
    """Returns the chart of records per second by client; each panel has its own axis, which begins at zero."""
    height = 84 + sum(HEAD + ROW * len(rates) + AXIS for rates in panels.values())
    svg = ET.Element("svg", xmlns="http://www.w3.org/2000/svg", role="img", viewBox=f"0 0 {WIDTH} {height}")
    svg.set("width", str(WIDTH))
    svg.set("height", str(height))
    ET.SubElement(svg, "title").text = title
    ET.SubElement(svg, "style").text = STYLE
    # Viewers of images have a background of their own, whose color the text may have.
    ET.SubElement(svg, "rect", {"width": "100%", "height": "100%", "class": "page"})
    text(svg, 16, 28, title, "title")
    text(
        svg,
        16,
        50,
        "Outlined bars do not produce Arrow: the limit of the broker, and clients of other languages.",
        "tick",
    )
    top = 60
    for name, rates in panels.items():
        top = panel(svg, top, name, rates)
    text(svg, (LEFT + RIGHT) / 2, top + 10, "million records per second, median of the runs", anchor="middle")
    ET.indent(svg)
    return ET.tostring(svg, encoding="unicode") + "\n"


def panel(svg: Element, top: float, name: str, rates: Mapping[str, float]) -> float:
    """Draws one panel; returns the top of the next one."""
    text(svg, 16, top + HEAD - 10, name, "panel")
    top += HEAD
    bottom = top + ROW * len(rates)
    step = tick(max(rates.values()))
    ticks = math.ceil(max(rates.values()) / step)
    scale = (RIGHT - LEFT) / (step * ticks)
    for number in range(ticks + 1):
        x = LEFT + number * step * scale
        ET.SubElement(svg, "line", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=f"{top}", y2=f"{bottom}")
        text(svg, x, bottom + 14, f"{number * step / 1e6:g}", "tick", "middle")
    for row, (client, rate) in enumerate(sorted(rates.items(), key=lambda one: -one[1])):
        y, width = top + row * ROW + (ROW - BAR) / 2, rate * scale
        kind = "ours" if client == "ours" else "bare" if client == "raw" or "no Arrow" in client else "peer"
        shape = {"x": f"{LEFT}", "y": f"{y}", "width": f"{width:.1f}", "height": f"{BAR}", "class": kind}
        ET.SubElement(svg, "rect", shape)
        text(svg, LEFT - 8, y + 13, NAMES.get(client, client), anchor="end")
        text(svg, LEFT + width + 6, y + 13, f"{rate / 1e6:.2f}")
    return bottom + AXIS


def text(svg: Element, x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> None:
    where = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor, **({"class": kind} if kind else {})}
    ET.SubElement(svg, "text", where).text = content


def tick(largest: float) -> float:
    """Returns a round distance between ticks, so that there are at most five."""
    power = 10 ** math.floor(math.log10(largest / 5))
    return next(power * times for times in (1, 2, 5, 10) if power * times * 5 >= largest)
