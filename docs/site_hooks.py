"""mkdocs hook: what the pages in the repository have otherwise than the site.

Sphinx's cross-references in docstrings (``:meth:`encode```) are shown as code, and links to files outside of
docs/ lead to the pages that ``generated_pages.py`` makes of them.
"""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":\w+:<code>~?(?:\w+\.)*(\w+)</code>")

_PAGES = {
    "../benchmarks/RESULTS.md": "results.md",
    "../benchmarks/PERFORMANCE.md": "performance.md",
    "../benchmarks/mining.md": "mining_results.md",
    "../benchmarks/search_trials.md": "search_trials.md",
    "../README.md#what-is-shipped-and-how-good-it-is": "each_language.md",
    "../modenc/recipe/settings.py": "recipe_reference.md",
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the links in a page's Markdown."""
    for file, page in _PAGES.items():
        markdown = markdown.replace(f"]({file}", f"]({page}")
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Replace them in the HTML of a page."""
    return _ROLE.sub(r"<code>\1</code>", html)
