"""Tiny languages in the hub's formats, written without torch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from modenc.hub.card import Card
from modenc.hub.files import sha256
from modenc.hub.layout import HubInfo
from modenc.hub.store import Hub
from modenc.languages import language_name

HIDDEN, RANK, PIECES = 8, 2, 5

PARALLEL_CONFIG = {
    "config": {
        "is_parallel": True,
        "output_adapter": True,
        "mh_adapter": False,
        "non_linearity": "relu",
        "scaling": 4.0,
    }
}

INFO = HubInfo(
    base_id="tiny/base",
    base_fingerprint="f00d",
    hidden_size=HIDDEN,
    pivot="en",
    pooling="mean",
    prompt="query: ",
    max_length=64,
)


def make_card(lang: str, **changes: object) -> Card:
    card = Card(
        lang=lang,
        name=language_name(lang),
        base_id=INFO.base_id,
        base_fingerprint=INFO.base_fingerprint,
        stages={"sentence_encoding": {"settings": {"objective": "mnrl"}, "fingerprint": "a1"}},
        data=[{"role": "paraphrases", "source": "pairs.tsv", "licence": "CC BY-SA 4.0", "rows": 1000}],
        licences=["CC BY-SA 4.0"],
        scores={"sentence_encoding_dev_before_sts": 70.0, "sentence_encoding_dev_after_sts": 76.25},
        recipe="tiny",
        recipe_hash="b2",
        seed=1,
        versions={"torch": "2.13.0"},
        created="2026-01-31",
    )
    return replace(card, **changes)  # type: ignore[arg-type]


def write_modules(root: Path, fill: float = 0.5, pivot: bool = False) -> None:
    """Modules of one language in the hub's formats, every weight equal to ``fill``."""
    (root / "tokenizer").mkdir(parents=True)
    tokenizer = Tokenizer(WordLevel({f"piece{i}": i for i in range(PIECES)}, unk_token="piece0"))
    tokenizer.save(str(root / "tokenizer" / "tokenizer.json"))
    save_file({"embeddings": np.full((PIECES, HIDDEN), fill, np.float16)}, root / "embeddings.safetensors")
    for part in ("la", "se"):
        write_lora(root / part, RANK, fill)
    if not pivot:
        (root / "cla").mkdir()
        (root / "cla" / "adapter_config.json").write_text(json.dumps(PARALLEL_CONFIG))
        key, bottleneck = "encoder.layer.0.output.adapters.cla.adapter_", HIDDEN // 2
        weights = {
            f"{key}down.0.weight": np.full((bottleneck, HIDDEN), fill, np.float16),
            f"{key}down.0.bias": np.full(bottleneck, fill, np.float16),
            f"{key}up.weight": np.full((HIDDEN, bottleneck), fill, np.float16),
            f"{key}up.bias": np.full(HIDDEN, fill, np.float16),
        }
        save_file(weights, root / "cla" / "adapter.safetensors")


def write_lora(folder: Path, rank: int, fill: float = 0.5) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": RANK, "lora_alpha": 4}))
    layer = "base_model.model.encoder.layer.0.attention.self.query"
    weights = {
        f"{layer}.lora_A.weight": np.full((rank, HIDDEN), fill, np.float16),
        f"{layer}.lora_B.weight": np.full((HIDDEN, rank), fill, np.float16),
    }
    save_file(weights, folder / "adapter_model.safetensors")


def edit_json(file: Path, **changes: object) -> None:
    """Change keys of a JSON file."""
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def update_card(root: Path, **changes: object) -> None:
    """Have a language's card agree with its files, as one who means harm would."""
    files = {
        path.relative_to(root).as_posix(): {
            "sha256": sha256(path) if path.stat().st_size < 1 << 30 else "0" * 64,
            "bytes": path.stat().st_size,
        }
        for path in sorted(root.rglob("*"))
        if path.name != "card.json" and path.is_file() and not path.is_symlink()
    }
    edit_json(root / "card.json", **{"files": files, **changes})


def publish(hub: Hub, lang: str, fill: float = 0.5) -> Card:
    with hub.staging(lang) as staging:
        write_modules(staging, fill, pivot=lang == hub.info.pivot)
        return hub.publish(staging, make_card(lang))
