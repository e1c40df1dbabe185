"""Adapters, attached and saved: LoRA (by peft) and CLA (by adapters)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import adapters
import torch
from adapters import ParBnConfig
from peft import LoraConfig, PeftModel, get_peft_model, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from modenc.errors import RecipeError
from modenc.hub.layout import CLA_CONFIG, CLA_WEIGHTS, LORA_CONFIG, LORA_WEIGHTS
from modenc.recipe.settings import LoraSettings

ATTENTION_LAYERS = ["query", "key", "value"]
ALL_LINEAR_LAYERS = ["query", "key", "value", "dense"]
CLA_NAME = "cla"


def add_lora(body: PreTrainedModel, settings: LoraSettings, layers: list[str]) -> PeftModel:
    """Freeze ``body`` and put a fresh LoRA (Hu et al., 2022) on the named linear layers."""
    config = LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, lora_dropout=settings.dropout, target_modules=layers
    )
    return get_peft_model(body, config)


def load_lora(model: PeftModel, folder: Path) -> None:
    """Load a peft folder into the model's LoRA; RecipeError if rank or alpha differ."""
    saved = json.loads((folder / LORA_CONFIG).read_text())
    own = model.peft_config["default"]
    if (saved["r"], saved["lora_alpha"]) != (own.r, own.lora_alpha):
        raise RecipeError(
            f"sentence_encoding.lora: expected rank {saved['r']} and alpha {saved['lora_alpha']}, as the "
            f"adapter in {folder} that it starts from; found rank {own.r} and alpha {own.lora_alpha}"
        )
    set_peft_model_state_dict(model, load_file(folder / LORA_WEIGHTS))


def save_lora(model: PeftModel, folder: Path, base_id: str) -> None:
    """Write a peft folder in half precision: adapter_config.json and adapter_model.safetensors."""
    model.save_pretrained(folder, safe_serialization=True, save_embedding_layers=False)
    (folder / "README.md").unlink(missing_ok=True)
    config = folder / LORA_CONFIG
    targets = json.loads(config.read_text())["target_modules"]
    # peft writes a set, in an order that changes from process to process.
    _edit_json(config, base_model_name_or_path=base_id, inference_mode=True, target_modules=sorted(targets))
    _halve(folder / LORA_WEIGHTS)


def add_parallel_adapter(body: PreTrainedModel, reduction_factor: int) -> None:
    """Freeze ``body`` and put a fresh parallel adapter (He et al., 2022; ``ParBnConfig``) on its blocks."""
    adapters.init(body)
    body.add_adapter(CLA_NAME, config=ParBnConfig(reduction_factor=reduction_factor))
    body.train_adapter(CLA_NAME)


def load_parallel_adapter(body: PreTrainedModel, folder: Path) -> None:
    """Load an AdapterHub folder into the body's parallel adapter; RecipeError if their widths differ."""
    own = {name: weight for name, weight in body.named_parameters() if f".{CLA_NAME}." in name}
    found = load_file(folder / CLA_WEIGHTS)
    for name, weight in own.items():
        if name not in found or found[name].shape != weight.shape:
            width = json.loads((folder / CLA_CONFIG).read_text())["config"].get("reduction_factor")
            raise RecipeError(
                f"alignment.reduction_factor: expected {width}, as the adapter in {folder} that it starts "
                "from has; set it, or start from another language"
            )
    body.load_state_dict(found, strict=False)


@contextmanager
def scaled_adapter(
    model: PreTrainedModel | PeftModel, scale: float, start: Tensor | None = None
) -> Iterator[None]:
    """Scale within the block what was learned: the output of the LoRA or the parallel adapter that trains.

    With ``start`` [tokens, hidden] also the embeddings' change since then.
    """
    outputs = (f".{CLA_NAME}.adapter_up.", ".lora_B.")
    last = [p for name, p in model.named_parameters() if p.requires_grad and any(o in name for o in outputs)]
    tables = [] if start is None else [model.get_input_embeddings().weight]
    before = [parameter.detach().clone() for parameter in (*last, *tables)]
    with torch.no_grad():
        for parameter in last:
            parameter.mul_(scale)
        if start is not None:
            tables[0].lerp_(start.to(tables[0].device), 1 - scale)
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, value in zip((*last, *tables), before, strict=True):
                parameter.copy_(value)


def save_parallel_adapter(body: PreTrainedModel, folder: Path, base_id: str) -> None:
    """Write an AdapterHub folder in half precision: adapter_config.json and adapter.safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    body.save_adapter(str(folder), CLA_NAME, use_safetensors=True)
    _edit_json(folder / CLA_CONFIG, model_name=base_id)
    _halve(folder / CLA_WEIGHTS)


def _halve(path: Path) -> None:
    tensors = {name: tensor.to(torch.float16).contiguous() for name, tensor in load_file(path).items()}
    save_file(tensors, path)


def _edit_json(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, **changes}, indent=2, sort_keys=True) + "\n")
