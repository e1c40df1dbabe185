"""README of an exported model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from modenc.hub.card import Card
from modenc.hub.layout import HubInfo
from modenc.hub.readme import base_page, data_section, front_matter

_ALIGNMENT = {
    True: "with the alignment adapter: vectors are comparable with those of the hub's other languages",
    False: "without an alignment adapter",
}


@dataclass(frozen=True)
class Exported:
    """An exported model."""

    card: Card
    """Card of the language."""
    info: HubInfo
    """Content of its hub's ``hub.json``."""
    to: str
    """Format."""
    int8: bool
    aligned: bool
    """Whether it includes the alignment adapter."""
    max_length: int
    """Number of tokens at which texts are cut."""
    agreement: str
    """Text on how well its vectors agree with modenc's."""


def model_page(exported: Exported) -> str:
    """Write the text of the README."""
    card, info = exported.card, exported.info
    base = base_page(info.base_id)
    # A folder's path would reveal names on this machine.
    own = info.base_id if base else Path(info.base_id).name
    package, backend = "sentence-transformers", ""
    if exported.to != "sentence-transformers":
        package, backend = f'"sentence-transformers[{exported.to}]"', f', backend="{exported.to}"'
    prompt = f"`{info.prompt}`, put before every text unless another is given" if info.prompt else "none"
    lines = [
        *front_matter(card, "sentence-transformers", "feature-extraction"),
        "",
        f"# {card.name} ({card.lang}) sentence encoder",
        "",
        f"`{base or own}` with modules for {card.name} merged into its weights by modenc, "
        f"{_ALIGNMENT[exported.aligned]}. It is "
        f"for texts in {card.name}: the other languages of the hub have modules of their own.",
        "",
        f"- Base: `{own}` (fingerprint `{info.base_fingerprint}`)",
        f"- Prompt: {prompt}",
        f"- Pooling: {info.pooling}; {info.hidden_size} dimensions; texts are cut at {exported.max_length} "
        "tokens",
        f"- Format: {exported.to}, {'8-bit integers' if exported.int8 else 'float32'}; {exported.agreement}",
        f"- Licenses of what the modules were trained on: {', '.join(card.licenses) or 'not stated'}; that "
        "of the base applies as well",
        "",
        "## Use",
        "",
        f"With `pip install {package}`:",
        "",
        "```python",
        "from sentence_transformers import SentenceTransformer",
        "",
        f'model = SentenceTransformer("path/to/this/folder"{backend})',
        'vectors = model.encode(["..."])',
        "```",
        "",
        *_notes(exported),
        *data_section(card),
    ]
    return "\n".join(lines) + "\n"


def _notes(exported: Exported) -> list[str]:
    if exported.to == "openvino":
        return [
            "OpenVINO computes in bfloat16 on processors that have it, and then differs in the third digit; "
            '`model_kwargs={"ov_config": {"INFERENCE_PRECISION_HINT": "f32"}}` keeps it to float32.',
            "",
        ]
    if exported.to == "sentence-transformers" and exported.aligned:
        return [
            "The alignment adapter is in the feed-forward layers, as more neurons whose first weights are "
            "4096 times as large as the adapter's, and whose last ones are as much smaller. 8-bit integers "
            "cannot hold both: for those export with `--to onnx --int8` or `--to openvino --int8`.",
            "",
        ]
    return []
