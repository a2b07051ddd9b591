"""Checks the built site (`make site`): links, anchors, ids, images, external resources, docstrings, and names.

python tools/check_site.py site
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
# Files that `make bench-python` writes. They are missing in a checkout in which it has not run.
LATER = {"benchmarks.svg"}
# Elements that a browser loads automatically, with the attribute that contains the address.
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
# Relations of `link` that load nothing.
NAMES = {"canonical", "next", "prev", "alternate", "author"}
VOID = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr",
}  # fmt: skip
# Empty elements of SVG.
DRAWN = {"path", "circle", "rect", "line", "use"}


class Page(HTMLParser):
    """Parses one page, and collects its links, ids and resources."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: Counter[str] = Counter()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.wrong: list[str] = []
        self.title = self.language = ""
        self._link: str | None = None
        # Classes of the last element that began.
        self._last = ""
        self._open: list[str] = []
        self.feed(path.read_text())
        self.close()
        self.wrong += [f"<{tag}> does not end" for tag in self._open if tag not in ("p", "li", "html", "body")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects ids, links and loaded resources."""
        config = {name: value or "" for name, value in attrs}
        if tag not in VOID and tag not in DRAWN:
            self._open.append(tag)
        if "id" in config:
            self.ids[config["id"]] += 1
        if tag == "html":
            self.language = config.get("lang", "")
        if tag == "a" and "href" in config:
            self.links.append(config["href"])
            self._link = ""
        if tag == "div" and "highlight" in config.get("class", "") and "doc-contents" in self._last:
            self.wrong.append("a docstring begins with a block of code: its first paragraph is indented")
        self._last = config.get("class", "")
        if tag in FETCHED and (place := config.get(FETCHED[tag])) and config.get("rel") not in NAMES:
            self.fetched.append(place)
        if tag == "img" and not config.get("alt"):
            self.wrong.append(f"an image without alt: {config.get('src')}")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Handles a self-closing element."""
        self.handle_starttag(tag, attrs)
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Closes open elements."""
        if tag in VOID or tag in DRAWN:
            return
        if tag not in self._open:
            self.wrong.append(f"</{tag}> ends nothing")
            return
        if tag == "a":
            if self._link and self._link.endswith(".md"):
                self.wrong.append(f"a link shows the name of a file: {self._link}")
            self._link = None
        while (last := self._open.pop()) != tag:
            if last not in ("p", "li"):
                self.wrong.append(f"</{tag}> ends <{last}>")

    def handle_data(self, data: str) -> None:
        """Collects the title, and the text of a link."""
        if self._link is not None:
            self._link += data.strip()
        if self._open and self._open[-1] == "title":
            self.title += data.strip()


def check(folder: Path) -> tuple[int, int, list[str]]:
    """Returns the number of pages and of links, and the problems found."""
    pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}
    wrong: list[str] = []
    links = 0
    for path, page in pages.items():
        name = str(path.relative_to(folder))
        wrong += [f"{name}: {text}" for text in page.wrong]
        wrong += [f"{name}: id {item!r} is there {count} times" for item, count in page.ids.items() if count > 1]
        if not page.title or not page.language:
            wrong.append(f"{name}: no title or no language")
        wrong += [f"{name}: fetches {place}" for place in page.fetched if urlsplit(place).netloc]
        for link in page.links + [place for place in page.fetched if not urlsplit(place).netloc]:
            links += 1
            if problem := _broken(link, path, folder, pages):
                wrong.append(f"{name}: {link}: {problem}")
    wrong += [f"{path.relative_to(folder)}: fetches a font or a style" for path in _foreign_styles(folder)]
    wrong += [f"{name}: no entry for {item}" for name, item in _missing_entries(folder, pages)]
    api = [page.ids for path, page in pages.items() if path.parent.name == "api"]
    shown = {item.rpartition(".")[2] for ids in api for item in ids}
    wrong += [f"api: {name} is on no page" for name in _public() if name not in shown]
    return len(pages), links, wrong


def _broken(link: str, path: Path, folder: Path, pages: dict[Path, Page]) -> str:
    """Returns the reason why a link is broken; empty if it is valid or leads to another site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    # Links of the 404 page are relative to the root.
    start = folder if parts.path.startswith("/") else path.parent
    target = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return "" if target.name in LATER else "there is no such file"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
        return "" if parts.fragment == "__skip" else "there is no such anchor"
    return ""


def _missing_entries(folder: Path, pages: dict[Path, Page]) -> list[tuple[str, str]]:
    """Returns options, metrics and errors in docs/ that have no anchor on the site."""
    found = []
    for name in ("options", "metrics", "errors"):
        source = ROOT / "docs" / f"{name}.md"
        if (page := pages.get(folder / f"{name}.html")) is not None:
            headings = re.findall(r"^### `([^`]+)`$", source.read_text(), re.MULTILINE)
            anchors = {heading: re.sub(r"[^\w-]", "", heading.lower()) for heading in headings}
            found += [(f"{name}.html", heading) for heading, anchor in anchors.items() if anchor not in page.ids]
    return found


def _foreign_styles(folder: Path) -> list[Path]:
    sheets = folder.rglob("*.css")
    return [path for path in sheets if "url(http" in path.read_text() or "@import" in path.read_text()]


def _public() -> list[str]:
    """Returns the public names of `samsarrow`, without importing it."""
    tree = ast.parse((ROOT / "python" / "samsarrow" / "__init__.py").read_text())
    [names] = [
        ast.literal_eval(item.value)
        for item in tree.body
        if isinstance(item, ast.Assign) and getattr(item.targets[0], "id", "") == "__all__"
    ]
    return list(names)


def main() -> int:
    """Prints the problems; returns 1 if there are any."""
    pages, links, wrong = check(Path(sys.argv[1]).resolve())
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    sys.stdout.write(f"{pages} pages, {links} links, {len(wrong)} faults\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
