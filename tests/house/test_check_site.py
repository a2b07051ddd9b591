"""tools/check_site.py reports each kind of fault of a site."""

import importlib.util
from pathlib import Path

from support.fences import ROOT

GOOD = '<!doctype html><html lang="en"><head><title>t</title></head><body>{}</body></html>'


def faults(folder: Path, body: str) -> list[str]:
    spec = importlib.util.spec_from_file_location("tools_check_site", ROOT / "tools" / "check_site.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    (folder / "other.html").write_text(GOOD.format('<h1 id="there">a</h1>'))
    (folder / "index.html").write_text(GOOD.format(body))
    return [fault for fault in tool.check(folder)[2] if not fault.startswith("api: ")]


def test_site_without_faults_passes(tmp_path: Path) -> None:
    assert faults(tmp_path, '<a href="other.html#there">a</a><p>b<br>c<a href="https://example.com/x">d</a>') == []


def test_faults_are_reported(tmp_path: Path) -> None:
    body = (
        '<a href="none.html">a</a><a href="other.html#none">b</a><p id="x"></p><p id="x"></p><div>'
        '<img src="other.html"><img src="gone.png" alt="c"><script src="https://example.com/a.js"></script>'
        '<link rel="stylesheet" href="https://example.com/a.css"></span>'
        '<a href="other.html">other.md</a><div class="doc doc-contents"><div class="highlight"></div></div>'
    )
    (tmp_path / "a.css").write_text("@font-face { src: url(https://example.com/a.woff) }")
    found = faults(tmp_path, body)
    assert [fault.partition(": ")[2] for fault in found] == [
        "an image without alt: other.html",
        "</span> ends nothing",
        "a link shows the name of a file: other.md",
        "a docstring begins with a block of code: its first paragraph is indented",
        "</body> ends <div>",
        "id 'x' is there 2 times",
        "fetches https://example.com/a.js",
        "fetches https://example.com/a.css",
        "none.html: there is no such file",
        "other.html#none: there is no such anchor",
        "gone.png: there is no such file",
        "fetches a font or a style",
    ]
