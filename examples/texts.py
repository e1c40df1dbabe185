"""What the examples index and ask: the sentences of the quickstart, in six languages."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "quickstart"))

from sentences import SENTENCES  # noqa: E402

HUB = ROOT / "adapters_hub" / "me5-small"
LANGUAGES = ("az", "kk", "ky", "ug", "uz", "de")
TEXTS = [(lang, text) for lang in LANGUAGES for text in SENTENCES[lang]]
"""36 sentences with their languages: the same six in each."""
QUESTION = SENTENCES["en"][4]
"""In English, which is not among them; each language has one answer."""
EVERYTHING = [(lang, text) for lang, texts in SENTENCES.items() for text in texts]
"""The six sentences in all eighteen languages."""
