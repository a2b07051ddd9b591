"""Hooks of the site link names of options, errors and pages in texts."""

import runpy

import pytest

from support.fences import ROOT

HOOKS = runpy.run_path(str(ROOT / "tools" / "site_hooks.py"), run_name="site_hooks")


def linked(html: str) -> str:
    found: str = HOOKS["linked"](html, lambda page, anchor, text: f"<a href={page}{anchor}>{text}</a>")
    return found


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>set <code>linger.ms</code>.</p>", "<p>set <a href=options.md#lingerms><code>linger.ms</code></a>.</p>"),
        ("<code>queue.buffering.max.ms</code>", "<a href=options.md#lingerms><code>queue.buffering.max.ms</code></a>"),
        (
            "<code>acks</code><code>retries</code>",
            "<a href=options.md#acks><code>acks</code></a><a href=options.md#retries><code>retries</code></a>",
        ),
        ("<code>FencedError</code>", "<a href=errors.md#fencederror><code>FencedError</code></a>"),
        ("<p>docs/options.md lists all</p>", "<p><a href=options.md>Options</a> lists all</p>"),
    ],
)
def test_names_become_links(html: str, expected: str) -> None:
    assert linked(html) == expected


@pytest.mark.parametrize(
    "html",
    [
        '<h3><code>linger.ms</code><a href="#x">docs/options.md</a></h3>',
        "<pre><code>linger.ms</code></pre>",
        '<a href="x"><code>linger.ms</code></a>',
        "<code>linger_ms</code> <code>no.such.option</code> docs/nothing.md <code>docs/options.md</code>",
    ],
)
def test_headings_code_blocks_and_other_names_stay(html: str) -> None:
    assert linked(html) == html


def test_wide_pages_exist_and_the_version_is_that_of_the_workspace() -> None:
    assert [page for page in HOOKS["WIDE"] if not (ROOT / "docs" / page).exists()] == []
    assert f'version = "{HOOKS["version"]()}"' in (ROOT / "Cargo.toml").read_text()
