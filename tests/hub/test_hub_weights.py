"""What a language's weights may be: the largest that pass still give vectors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tiny_models
from safetensors.numpy import load_file, save_file
from tiny_languages import update_card

from modenc import ModularEncoder
from modenc.errors import HubError
from modenc.hub.store import Hub

TEXTS = [*tiny_models.sentences("kk")[:2], tiny_models.sentences("az")[0]]


def set_scaling(root: Path, value: float) -> None:
    for part in ("la", "se"):
        path = root / part / "adapter_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "lora_alpha": value}))
    path = root / "cla" / "adapter_config.json"
    content = json.loads(path.read_text())
    content["config"]["scaling"] = value
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("compute", ["fp32", "bf16"])
@pytest.mark.parametrize("signs", [(1,), (-1, 1)])
def test_the_largest_weights_give_vectors(hub_copy: Hub, compute: str, signs: tuple[int, ...]) -> None:
    root = hub_copy.version_folder("kk")
    rng = np.random.default_rng(0)
    for path in root.rglob("*.safetensors"):
        most = 1000 if path.name == "embeddings.safetensors" else 10
        weights = {
            name: (most * rng.choice(signs, weight.shape)).astype(np.float32)
            for name, weight in load_file(path).items()
        }
        save_file(weights, path)
    set_scaling(root, 1000)
    update_card(hub_copy.folder("kk"))
    encoder = ModularEncoder(hub_copy.path, compute=compute)
    assert np.isfinite(encoder.encode(TEXTS[:2], lang="kk")).all()
    assert np.isfinite(encoder.encode(TEXTS, lang=["kk", "kk", "az"])).all()
    set_scaling(root, 1001)
    update_card(hub_copy.folder("kk"))
    with pytest.raises(HubError, match="expected a number up to 1000 for scaling in adapter_config"):
        hub_copy.read("kk")


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("name", "most"), [("embeddings", 1000), ("la/adapter_model", 10), ("cla/adapter", 10)]
)
def test_weights_are_within_bounds(hub_copy: Hub, kind: type, sign: int, name: str, most: int) -> None:
    root = hub_copy.version_folder("kk")
    path = root / f"{name}.safetensors"
    weights = {key: weight.astype(kind) for key, weight in load_file(path).items()}
    for value in (most, most + 1):
        weights[min(weights)].flat[-1] = sign * value
        save_file(weights, path)
        update_card(hub_copy.folder("kk"))
        if value == most:
            hub_copy.read("kk")
    found = rf"found .*{sign * (most + 1)}\b"
    with pytest.raises(HubError, match=f"expected weights from -{most} to {most}, {found}.*; train"):
        hub_copy.read("kk")
