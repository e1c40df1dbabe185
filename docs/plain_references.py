"""mkdocs hook: shows Sphinx's cross-references in docstrings (``:meth:`encode```) as code."""

from __future__ import annotations

import re
from typing import Any

_ROLE = re.compile(r":\w+:<code>~?(?:\w+\.)*(\w+)</code>")


def on_page_content(html: str, **_: Any) -> str:
    """Replace them in the HTML of a page."""
    return _ROLE.sub(r"<code>\1</code>", html)
