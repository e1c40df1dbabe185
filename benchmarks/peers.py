"""Libraries that modenc is compared with, and texts and hubs for the comparison."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from measure import Row, paired, ratio
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from modenc import ModularEncoder
from modenc.base_model import resolve_base
from modenc.data.formats import read_file
from modenc.hub.store import Hub
from modenc.languages import normalize_code

HUB = Path(__file__).resolve().parents[1] / "adapters_hub" / "me5-small"
PROMPT = "query: "


def stock(**options: Any) -> SentenceTransformer:
    """Load the base with sentence-transformers."""
    body = Transformer(str(resolve_base("me5-small").folder), max_seq_length=256)
    model = SentenceTransformer(modules=[body, Pooling(body.get_embedding_dimension(), "mean")], device="cpu")
    with tempfile.TemporaryDirectory() as saved:
        model.save(saved)
        return SentenceTransformer(saved, device="cpu", **options)


def against_peft(hub: Hub, texts: list[str], pairs: int) -> Row:
    """Encode a mixed batch by peft's ``adapter_names`` over the same LoRAs, without alignment."""
    from peft import PeftModel

    codes = [code for code in hub.languages() if code != "kk"][:6]
    base = resolve_base("me5-small")
    body, tokenizer = base.load_body().eval(), base.load_tokenizer()
    model = PeftModel.from_pretrained(body, hub.version_folder(codes[0]) / "se", adapter_name=codes[0])
    for code in codes[1:]:
        model.load_adapter(hub.version_folder(code) / "se", adapter_name=code)
    model.eval()
    langs = [codes[row % 6] for row in range(len(texts))]
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    batches = [order[start : start + 32] for start in range(0, len(order), 32)]
    encoder = ModularEncoder(hub.path)

    @torch.inference_mode()
    def peer() -> torch.Tensor:
        found = []
        for rows in batches:
            batch = tokenizer([PROMPT + texts[row] for row in rows], padding=True, return_tensors="pt")
            names = [langs[row] for row in rows]
            hidden = model(**batch, adapter_names=names).last_hidden_state
            mask = batch["attention_mask"][..., None]
            found.append((hidden * mask).sum(1) / mask.sum(1))
        return torch.cat(found)

    def ours() -> torch.Tensor:
        return encoder.encode(texts, lang=langs, align=False, convert_to_tensor=True)

    difference = float((ours()[[row for rows in batches for row in rows]] - peer()).abs().max())
    row = ratio(
        "64 texts of 6 languages, LA and SE alone, to peft's adapter_names, fp32",
        *paired(ours, peer, pairs),
        count=64,
    )
    return {**row, "largest difference": difference}


def synthetic(path: Path, count: int) -> Hub:
    """Make a hub of ``count`` languages: Kazakh's modules, each with different noise."""
    from safetensors.torch import load_file, save_file

    shipped = Hub.open(HUB)
    kazakh, card = shipped.version_folder("kk"), shipped.card("kk")
    hub = Hub.create(path, shipped.info)
    weights = load_file(kazakh / "se" / "adapter_model.safetensors")
    aligned = load_file(kazakh / "cla" / "adapter.safetensors")
    for seed, code in zip(range(count), _codes(), strict=False):
        noise = torch.Generator().manual_seed(seed)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            for part, name, tensors in (
                ("se", "adapter_model.safetensors", weights),
                ("cla", "adapter.safetensors", aligned),
            ):
                (folder / part).mkdir()
                config = (kazakh / part / "adapter_config.json").read_text()
                (folder / part / "adapter_config.json").write_text(config)
                moved = {
                    key: value + value.std() * 0.1 * torch.randn(value.shape, generator=noise).to(value)
                    for key, value in tensors.items()
                }
                save_file(moved, folder / part / name, metadata={"format": "pt"})
            hub.publish(folder, replace(card, lang=code))
    return hub


def _codes() -> Iterator[str]:
    """Language codes, English and Kazakh first."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    seen: set[str] = set()
    guesses = (
        first + second + third for third in ("", "a", "n", "r") for first in letters for second in letters
    )
    for guess in ("en", "kk", *guesses):
        try:
            code = normalize_code(guess)
        except ValueError:
            continue
        if code not in seen:
            seen.add(code)
            yield code


def gflop_of(texts: list[str]) -> float:
    """Count 10^9 operations of the base's linear layers on prompted texts, without padding."""
    base = resolve_base("me5-small")
    config = base.load_body().config
    layer = config.hidden_size * (4 * config.hidden_size + 2 * config.intermediate_size)
    rows = base.load_tokenizer()([PROMPT + text for text in texts], truncation=True, max_length=256)
    return 2e-9 * config.num_hidden_layers * layer * sum(map(len, rows["input_ids"]))


def lines(path: Path) -> list[str]:
    """Read the texts of a file with one a line."""
    return [row["text"] for row in read_file(path)]


def texts_of(data: Path, lang: str, count: int) -> list[str]:
    """Running text of a language, lines of middling length."""
    return [line for line in lines(data / "mono" / f"{lang}.txt.gz") if 60 < len(line) < 400][:count]
