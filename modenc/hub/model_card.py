"""A hub's page on Hugging Face: a summary of its languages' cards, with front matter for the site."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from langcodes import Language

from modenc.hub.card import Card
from modenc.hub.comparison import MODULES, SCORES
from modenc.hub.layout import PART_FILES, HubInfo
from modenc.hub.readme import base_page, license_fields, section

_LIBRARY = "modenc"
_TAGS = ("sentence-transformers", "feature-extraction", "sentence-similarity", "multilingual", "adapters")
# Metric of a card → task and its name, and the metric (0 to 1), as sentence-transformers names them.
_RESULTS = {
    "sts": ("semantic-similarity", "Semantic Similarity", "spearman_cosine"),
    "cross_sts": ("semantic-similarity", "Semantic Similarity", "spearman_cosine"),
    "retrieval": ("translation", "Translation", "mean_accuracy"),
}
_WIDGET_SENTENCES = 6


def hub_page(name: str, info: HubInfo, cards: Sequence[Card], text: str | None = None) -> str:
    """Write the ``README.md`` of a hub's repository.

    Args:
        name: id of the repository.
        info: content of ``hub.json``.
        cards: cards of all its languages.
        text: the publisher's own page; its text and its additional front matter are kept.
    """
    from huggingface_hub import ModelCard, ModelCardData

    data = ModelCardData(**_metadata(name, info, cards))
    if text is None:
        return f"---\n{data.to_yaml()}\n---\n\n{_text(name, info, cards)}"
    own = ModelCard(text, ignore_metadata_errors=True)
    front_matter: dict[str, Any] = own.data.to_dict() | data.to_dict()  # type: ignore[no-untyped-call]
    merged = ModelCardData(**front_matter, ignore_metadata_errors=True)
    return f"---\n{merged.to_yaml()}\n---\n{own.text}"


def _metadata(name: str, info: HubInfo, cards: Sequence[Card]) -> dict[str, Any]:
    results = list(_results(info, cards))
    base = base_page(info.base_id)
    licenses = license_fields(license for card in cards for license in card.licenses)
    if "license_name" in licenses:
        licenses["license_link"] = f"https://huggingface.co/{name}#licenses"
    return {
        "language": [card.lang for card in cards],
        **licenses,
        "library_name": _LIBRARY,
        "base_model": base,
        "base_model_relation": "adapter" if base else None,
        "tags": list(_TAGS),
        "pipeline_tag": "sentence-similarity",
        "metrics": sorted({result.metric_type for result in results}) or None,
        "model_name": name,
        "eval_results": results or None,
        "widget": _widget(info, cards),
    }


def _results(info: HubInfo, cards: Sequence[Card]) -> Iterator[Any]:
    """Yield the modules' results on data held out from training."""
    from huggingface_hub import EvalResult

    for card in cards:
        metrics = card.comparison.get(MODULES) or card.last_scores()
        for metric, (task, task_name, metric_type) in _RESULTS.items():
            if metric not in metrics or not math.isfinite(metrics[metric]):
                continue
            config = card.lang if metric == "sts" else f"{info.pivot}-{card.lang}"
            yield EvalResult(
                task_type=task,
                task_name=task_name,
                dataset_type="held-out",
                dataset_name=f"data held out from training ({config})",
                dataset_config=config,
                dataset_split="dev",
                metric_type=metric_type,
                metric_name=SCORES[metric].partition(" (")[0],
                metric_value=round(metrics[metric] / 100, 4),
            )


def _widget(info: HubInfo, cards: Sequence[Card]) -> list[dict[str, Any]] | None:
    """Make the site's example: the pivot's name in the languages of the hub."""
    pivot = Language.get(info.pivot)
    source = pivot.display_name(info.pivot)
    names = dict.fromkeys(pivot.display_name(card.lang) for card in cards)
    others = [name for name in names if name != source][:_WIDGET_SENTENCES]
    return [{"source_sentence": source, "sentences": others}] if others else None


def _text(name: str, info: HubInfo, cards: Sequence[Card]) -> str:
    codes = [card.lang for card in cards]
    example = next((code for code in codes if code != info.pivot), info.pivot)
    lines = [
        f"# {name}",
        "",
        f"Sentence vectors for texts in {len(cards)} languages: each has adapters of its own on one frozen",
        f"encoder, `{info.base_id}`. Made with modenc, which fetches only the languages that are used.",
        "",
        "```python",
        "from modenc import ModularEncoder",
        "",
        f'encoder = ModularEncoder("{name}")  # revision="..." for a commit, branch or tag',
        f'vectors = encoder.encode(["..."], lang="{example}")  # without lang, it is identified',
        "```",
        "",
        f"`modenc hub pull {name} --output DIR` copies the hub into a folder.",
        "",
        *section(
            "Languages",
            ("language", "code", "modules", "MB", "scores on held-out data"),
            [_row(card) for card in cards],
        ),
        "A language's README.md says what it was trained on and how.",
        "",
        *section(
            "Licenses",
            ("language", "license"),
            [(card.name, "; ".join(card.licenses) or "not stated") for card in cards],
        ),
    ]
    return "\n".join(lines)


def _row(card: Card) -> tuple[str, ...]:
    parts = [part for part, names in PART_FILES.items() if set(names) <= card.files.keys()]
    metrics = card.comparison.get(MODULES) or card.last_scores()
    scores = ", ".join(f"{metric} {metrics[metric]:.1f}" for metric in SCORES if metric in metrics)
    page = f"[{card.name}]({card.lang}/README.md)"
    return page, card.lang, " ".join(parts), f"{card.nbytes / 1e6:.1f}", scores
