"""Hooks of mkdocs for the site: the version, the width of reference pages, and links of names in texts.

The environment of mkdocs does not have the package, so names come from the generated pages.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# Pages without the column of headings: hundreds of entries, whose sections are linked at the top, or wide tables.
WIDE = {"options.md", "metrics.md", "errors.md", "compatibility.md", "migrating/options.md"}
# Pages with an entry for each name, as a heading.
REFERENCE = ("options.md", "errors.md")
TAG = re.compile(r"(<[^>]+>)")
PAGE = re.compile(r"\bdocs/([\w/-]+)\.md\b")
# Elements whose text is not linked: links, headings and code blocks.
CLOSED = re.compile(r"</?(a|h[1-6]|pre|title)\b")


def on_config(config: Any) -> None:
    """Adds the version to the name of the site."""
    config.site_name = f"samsarrow {version()}"


def version() -> str:
    """Returns the version of the workspace."""
    return str(tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"])


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Removes the column of headings from wide pages."""
    if page.file.src_uri in WIDE:
        page.meta["hide"] = ["toc"]
    return markdown


def on_page_content(html: str, page: Any, files: Any, **_: Any) -> str:
    """Links names of options and errors to their entries, and names of pages to the pages."""
    here = page.file

    def link(uri: str, anchor: str, text: str) -> str:
        address = files.get_file_from_path(uri).url_relative_to(here)
        return f'<a href="{address}{anchor}">{text}</a>'

    return linked(html, link)


def linked(html: str, link: Any) -> str:
    """Returns a page with links around names.

    Args:
        html: content of the page.
        link: function of the page's path in docs/, the anchor (`#name` or empty) and the HTML of the link's text.
    """
    parts = TAG.split(html)
    depth = 0
    for index, part in enumerate(tuple(parts)):
        if part.startswith("<"):
            if CLOSED.match(part):
                depth += -1 if part.startswith("</") else 1
            elif part == "<code>" and not depth and (entry := entries().get(parts[index + 1])):
                # The three parts are the element, since code has no elements inside.
                parts[index] = parts[index + 2] = ""
                parts[index + 1] = link(*entry, f"<code>{parts[index + 1]}</code>")
        elif not depth and "docs/" in part and (not index or parts[index - 1] != "<code>"):
            parts[index] = PAGE.sub(lambda found: _page(found, link), part)
    return "".join(parts)


def _page(found: re.Match[str], link: Any) -> str:
    path = DOCS / f"{found[1]}.md"
    return link(f"{found[1]}.md", "", title(path)) if path.exists() else found[0]


def title(path: Path) -> str:
    """Returns the title of a page."""
    return path.read_text().partition("\n")[0].removeprefix("# ").replace("`", "")


@cache
def entries() -> dict[str, tuple[str, str]]:
    """Returns the page and the anchor of each name, and of each alias of an option."""
    found: dict[str, tuple[str, str]] = {}
    for page in REFERENCE:
        for entry in re.split(r"^### ", (DOCS / page).read_text(), flags=re.MULTILINE)[1:]:
            name = entry[1:].partition("`")[0]
            anchor = "#" + re.sub(r"[^\w-]", "", name.lower())
            aliases = re.search(
                r" Also (`[^.]*(?:\.[^.\s][^.]*)*`)\.$", entry.partition("\n## ")[0].strip(), re.MULTILINE
            )
            for known in (name, *re.findall(r"`([^`]+)`", aliases[1] if aliases else "")):
                found.setdefault(known, (page, anchor))
    return found
