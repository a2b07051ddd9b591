"""Links of the documents are valid on GitHub and on the site, and the menu of the site has every page."""

import re
import unicodedata
from functools import cache
from pathlib import Path

from support.fences import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
# Files that `make bench-python` generates.
LATER = {DOCS / "benchmarks.svg"}


def prose(path: Path) -> str:
    """Returns the text of a page without fences, inline code and comments."""
    text = re.sub(r"^ *```.*?^ *```$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


@cache
def headings(path: Path) -> list[str]:
    text = re.sub(r"^ *```.*?^ *```$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = re.findall(r"^#{1,6} (.*)$", text, re.MULTILINE)
    return [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "") for heading in found]


def on_github(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def on_the_site(heading: str) -> str:
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def anchors(path: Path) -> set[str]:
    """Returns the anchors of a page that are the same on GitHub and on the site."""
    found = headings(path)
    return {on_github(one) for one in found} & {on_the_site(one) for one in found}


def links(path: Path) -> list[str]:
    text = prose(path)
    found = re.findall(r"!?\[[^\]]*\]\(([^)\s]+)\)", text) + re.findall(r"(?:src|href)=\"([^\"]+)\"", text)
    return [one for one in found if not re.match(r"[a-z]+:", one)]


def test_links_resolve() -> None:
    wrong, seen = [], 0
    for page in PAGES:
        for link in links(page):
            seen += 1
            place, _, anchor = link.partition("#")
            target = (page.parent / place).resolve() if place else page
            if target in LATER:
                continue
            if not target.exists():
                wrong.append((page.name, link, "there is no such file"))
            elif DOCS in page.parents and DOCS not in target.parents:
                wrong.append((page.name, link, "the site has only what is in docs/"))
            elif anchor and anchor not in anchors(target):
                wrong.append((page.name, link, "there is no such heading"))
    assert seen > 80
    assert wrong == []


def test_links_show_titles_instead_of_file_names() -> None:
    shown = [(page.name, text) for page in PAGES for text in re.findall(r"\[([^\]]*)\]\([^)]+\)", prose(page))]
    assert [(page, text) for page, text in shown if text.endswith(".md") and DOCS / text in PAGES] == []


def test_the_menu_has_every_page() -> None:
    menu = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = re.findall(r"([\w/.-]+\.md)$", menu, re.MULTILINE)
    assert len(named) == len(set(named))
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert set(named) == there, "run `make generate` for decisions; other pages go into mkdocs.yml by hand"
