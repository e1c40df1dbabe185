"""The hubs of the tests: of constant modules on a base that is not there, of random ones on a tiny base.

torch is imported for the latter alone: processes that tests start do without it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from modenc.hub.card import Card
from modenc.hub.layout import HubInfo, sha256
from modenc.hub.store import Hub
from modenc.languages import language_name

Weights = Callable[..., npt.NDArray[np.float16]]
"""Shape → weights."""


class Sizes(NamedTuple):
    """What modules for a base measure."""

    hidden: int
    inner: int
    layers: int
    rank: int
    alpha: int
    bottleneck: int


HIDDEN, PIECES = 8, 5
SMALL = Sizes(hidden=HIDDEN, inner=16, layers=1, rank=2, alpha=4, bottleneck=4)
"""Of :data:`INFO`'s base."""
TINY = Sizes(hidden=32, inner=64, layers=2, rank=4, alpha=8, bottleneck=16)
"""Of the bases of ``tiny_models``."""

INFO = HubInfo(
    base_id="tiny/base",
    base_fingerprint="f00d",
    hidden_size=HIDDEN,
    pivot="en",
    pooling="mean",
    prompt="query: ",
    max_length=64,
)


def make_card(lang: str, info: HubInfo = INFO, **changes: object) -> Card:
    card = Card(
        lang=lang,
        name=language_name(lang),
        base_id=info.base_id,
        base_fingerprint=info.base_fingerprint,
        stages={
            "vocabulary": {"settings": {"method": "base"}, "metrics": {}, "fingerprint": "a0"},
            "sentence_encoding": {
                "settings": {"objective": "mnrl", "optimizer": {"batch_size": 8}, "strength": 0.9},
                "metrics": {"steps": 30},
                "fingerprint": "a1",
            },
        },
        data=[{"role": "paraphrases", "source": "pairs.tsv", "license": "CC BY-SA 4.0", "rows": 1000}],
        licenses=["CC BY-SA 4.0"],
        recipe="tiny",
        recipe_hash="b2",
        seed=1,
        versions={"torch": "2.13.0"},
        created="2026-01-31",
        comparison={"rows": {"sts": 200}, "base": {"sts": 70.0}, "modules": {"sts": 76.25}},
    )
    return replace(card, **changes)  # type: ignore[arg-type]


def make_hub(path: Path, base: Path, languages: tuple[str, ...] = ("en", "kk", "az")) -> Hub:
    """A hub of random modules on ``tiny_xlmr``: kk has all parts, en (the pivot) and az no vocabulary."""
    import tiny_models
    from transformers import XLMRobertaModel

    from modenc.base_model.resolve import compute_fingerprint

    body = XLMRobertaModel.from_pretrained(base, add_pooling_layer=False)
    info = HubInfo(
        str(base), compute_fingerprint(body), TINY.hidden, "en", "mean", "query: ", tiny_models.POSITIONS
    )
    hub = Hub.create(path, info)
    for lang in languages:
        with TemporaryDirectory() as temporary:
            folder = Path(temporary)
            weights = normal(seed=sum(lang.encode()))
            if lang == "kk":
                tokenizer = tiny_models.unigram_tokenizer(tiny_models.sentences("kk"), size=150)
                tokenizer.save_pretrained(folder / "tokenizer")
                table = weights(len(tokenizer), TINY.hidden)
                save_file({"embeddings": table}, folder / "embeddings.safetensors")
            write_lora(folder / "la", ("query", "key", "value"), weights, TINY)
            write_lora(folder / "se", ("query", "key", "value", "dense"), weights, TINY)
            stages: dict[str, object] = {"sentence_encoding": {}}
            if lang != "en":
                write_parallel(folder / "cla", weights, TINY)
                stages["alignment"] = {}
            data = [{"role": "text", "source": "made up", "license": "CC0-1.0", "rows": 320}]
            changes = {"stages": stages, "data": data, "licenses": ["CC0-1.0"]}
            hub.publish(folder, make_card(lang, info, **changes))
    return hub


def filled(fill: float) -> Weights:
    return lambda *shape: np.full(shape, fill, np.float16)


def normal(seed: int) -> Weights:
    import torch

    generator = torch.Generator().manual_seed(seed)
    return lambda *shape: (torch.randn(*shape, generator=generator) * 0.15).half().numpy()


def write_modules(root: Path, fill: float = 0.5, pivot: bool = False) -> None:
    """Modules of one language for :data:`INFO`'s base, every weight equal to ``fill``."""
    (root / "tokenizer").mkdir(parents=True)
    tokenizer = Tokenizer(WordLevel({f"piece{i}": i for i in range(PIECES)}, unk_token="piece0"))
    tokenizer.save(str(root / "tokenizer" / "tokenizer.json"))
    save_file({"embeddings": filled(fill)(PIECES, HIDDEN)}, root / "embeddings.safetensors")
    for part in ("la", "se"):
        write_lora(root / part, weights=filled(fill))
    if not pivot:
        write_parallel(root / "cla", filled(fill))


def write_lora(
    folder: Path,
    targets: tuple[str, ...] = ("query",),
    weights: Weights | None = None,
    sizes: Sizes = SMALL,
    rank: int | None = None,
) -> None:
    """A LoRA as peft writes it; ``rank`` is that of its matrices, where the configuration says another."""
    hidden, inner, rank, weights = sizes.hidden, sizes.inner, rank or sizes.rank, weights or filled(0.5)
    shapes = {
        "attention.self.query": (hidden, hidden),
        "attention.self.key": (hidden, hidden),
        "attention.self.value": (hidden, hidden),
        "attention.output.dense": (hidden, hidden),
        "intermediate.dense": (inner, hidden),
        "output.dense": (hidden, inner),
    }
    tensors = {}
    for layer, (name, (rows, columns)) in product(range(sizes.layers), shapes.items()):
        if name.rsplit(".", 1)[-1] in targets:
            key = f"base_model.model.encoder.layer.{layer}.{name}"
            tensors[f"{key}.lora_A.weight"] = weights(rank, columns)
            tensors[f"{key}.lora_B.weight"] = weights(rows, rank)
    settings = {
        "peft_type": "LORA",
        "r": sizes.rank,
        "lora_alpha": sizes.alpha,
        "lora_dropout": 0.1,
        "target_modules": list(targets),
        "bias": "none",
        "inference_mode": True,
        "use_dora": False,
        "use_rslora": False,
    }
    _write_part(folder, "adapter_model.safetensors", tensors, settings)


def write_parallel(folder: Path, weights: Weights, sizes: Sizes = SMALL) -> None:
    """A parallel adapter as adapters writes it."""
    hidden, bottleneck = sizes.hidden, sizes.bottleneck
    tensors = {}
    for layer in range(sizes.layers):
        key = f"encoder.layer.{layer}.output.adapters.cla"
        tensors[f"{key}.adapter_down.0.weight"] = weights(bottleneck, hidden)
        tensors[f"{key}.adapter_down.0.bias"] = weights(bottleneck)
        tensors[f"{key}.adapter_up.weight"] = weights(hidden, bottleneck)
        tensors[f"{key}.adapter_up.bias"] = weights(hidden)
    config = {
        "adapter_residual_before_ln": False,
        "cross_adapter": False,
        "dropout": 0.0,
        "init_weights": "mam_adapter",
        "is_parallel": True,
        "ln_after": False,
        "ln_before": False,
        "mh_adapter": False,
        "non_linearity": "relu",
        "original_ln_after": True,
        "original_ln_before": False,
        "output_adapter": True,
        "reduction_factor": hidden // bottleneck,
        "residual_before_ln": True,
        "scaling": 4.0,
    }
    about = {
        "config": config,
        "hidden_size": hidden,
        "model_class": "XLMRobertaModel",
        "model_name": "",
        "model_type": "xlm-roberta",
        "name": "cla",
        "version": "adapters.1.3.0",
    }
    _write_part(folder, "adapter.safetensors", tensors, about)


def _write_part(
    folder: Path, file: str, tensors: dict[str, npt.NDArray[np.float16]], config: dict[str, object]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / file)
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2))


def edit_json(file: Path, **changes: object) -> None:
    """Change keys of a JSON file."""
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def update_card(root: Path, **changes: object) -> None:
    """Have the card in a language's folder agree with its files, as an attacker would."""
    card = root / "card.json"
    root /= json.loads(card.read_text()).get("version", "")
    files = {
        path.relative_to(root).as_posix(): {
            "sha256": sha256(path) if path.stat().st_size < 1 << 30 else "0" * 64,
            "bytes": path.stat().st_size,
        }
        for path in sorted(root.rglob("*"))
        if path.name != "card.json" and path.is_file() and not path.is_symlink()
    }
    edit_json(card, **{"files": files, **changes})


def publish(hub: Hub, lang: str, fill: float = 0.5) -> Card:
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_modules(folder, fill, pivot=lang == hub.info.pivot)
        return hub.publish(folder, make_card(lang))
