from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import save_file
from tiny_languages import HIDDEN, PIECES, edit_json, update_card, write_lora

from modenc.errors import HubError
from modenc.hub.store import Hub


def test_a_good_hub_has_no_problems(hub: Hub) -> None:
    assert hub.verify() == []
    assert hub.verify("kaz") == []
    hub.read("kk")


LORA, CLA = "la/adapter_model.safetensors", "cla/adapter.safetensors"
EMBEDDINGS = "embeddings.safetensors"


def truncate(root: Path) -> None:
    path = root / "embeddings.safetensors"
    path.write_bytes(path.read_bytes()[:-3])


def wrong_vocabulary(root: Path) -> None:
    save_file({"embeddings": np.zeros((PIECES + 1, HIDDEN), np.float16)}, root / "embeddings.safetensors")


def wrong_name(root: Path) -> None:
    save_file({"weight": np.zeros((PIECES, HIDDEN), np.float16)}, root / "embeddings.safetensors")


def wrong_width(root: Path) -> None:
    layer = "base_model.model.layer.query"
    matrices = {"A": np.zeros((2, 5), np.float16), "B": np.zeros((6, 2), np.float16)}
    weights = {f"{layer}.lora_{name}.weight": matrix for name, matrix in matrices.items()}
    save_file(weights, root / "se" / "adapter_model.safetensors")


def integers(
    rows: npt.ArrayLike = 1, scales: npt.ArrayLike | None = 0.5, scale_type: type = np.float32, **more: Any
) -> Callable[[Path], None]:
    """A case with embeddings in int8, all of them ``rows``; of ``scales`` a number stands for one each."""
    tensors = {"embeddings": np.broadcast_to(np.int8(rows), (PIECES, HIDDEN)).copy(), **more}
    if scales is not None:
        many = scales if np.ndim(scales) else np.full(PIECES, scales)
        tensors["scales"] = np.asarray(many, dtype=scale_type)
    return lambda root: save_file(tensors, root / EMBEDDINGS)


LAYER = "base_model.model.encoder.layer.0.attention.self.query"
PARALLEL = "encoder.layer.0.output.adapters.cla.adapter_"


def lora(**shapes: tuple[int, ...]) -> Callable[[Path], None]:
    """A case with these tensors of a layer for a language adapter; ``__`` stands for a dot in their names."""
    weights = {
        f"{LAYER}.{name.replace('__', '.')}": np.zeros(shape, np.float16) for name, shape in shapes.items()
    }
    return lambda root: save_file(weights, root / "la" / "adapter_model.safetensors")


def parallel(**changes: tuple[int, ...] | None) -> Callable[[Path], None]:
    """A case with a parallel adapter whose tensors have other shapes, or are more, or (None) missing."""
    sound = {
        "down__0__weight": (4, HIDDEN),
        "down__0__bias": (4,),
        "up__weight": (HIDDEN, 4),
        "up__bias": (HIDDEN,),
    }
    weights = {
        PARALLEL + name.replace("__", "."): np.zeros(shape, np.float16)
        for name, shape in {**sound, **changes}.items()
        if shape is not None
    }

    def damage(root: Path) -> None:
        save_file(weights, root / "cla" / "adapter.safetensors")

    return damage


def integer_lora(root: Path) -> None:
    save_file({f"{LAYER}.lora_A.weight": np.zeros((2, HIDDEN), np.int8)}, root / LORA)


def other_alpha(root: Path) -> None:
    path = root / "la" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "alpha_pattern": {"query": 32}}))


@pytest.mark.parametrize(
    ("damage", "file", "message"),
    [
        (truncate, "embeddings.safetensors", "expected a whole safetensors file, found a damaged one"),
        (wrong_vocabulary, "embeddings.safetensors", r"expected shape \[5, 8\] .*, found \[6, 8\]"),
        (wrong_name, "embeddings.safetensors", "expected one tensor 'embeddings', found weight"),
        (integers(scales=None), EMBEDDINGS, "expected 'embeddings' in I8 with 'scales', found embeddings\n"),
        (integers(more=np.zeros(2, np.float32)), EMBEDDINGS, "with 'scales', found embeddings, more, scales"),
        (
            integers(scale_type=np.float16),
            EMBEDDINGS,
            r"expected 'scales' as float32 \[5\], found float16 \[5\]",
        ),
        (integers(scales=[1.0] * (PIECES + 1)), EMBEDDINGS, r"float32 \[5\], found float32 \[6\]"),
        (
            integers(embeddings=np.ones((PIECES, HIDDEN), np.int16)),
            EMBEDDINGS,
            "expected weights in F16 or F32 or I8, found I16",
        ),
        (integer_lora, LORA, "expected weights in F16 or F32, found I8"),
        (lambda root: write_lora(root / "la", rank=4), "la/adapter_model.safetensors", "expected rank 2"),
        (
            wrong_width,
            "se/adapter_model.safetensors",
            r"expected hidden size 8, found A \[2, 5\], B \[6, 2\]",
        ),
        (lora(lora_A__weight=(2, HIDDEN)), LORA, "expected the matrices lora_A and lora_B"),
        (lora(lora_A__weight=(2, HIDDEN), lora_B__weight=(HIDDEN, 1)), LORA, r"rank 2 .*B \[8, 1\]"),
        (
            lora(lora_A__weight=(2, HIDDEN), lora_B__weight=(HIDDEN, 2), lora_B__a__weight=(HIDDEN, 2)),
            LORA,
            r"each layer's lora_A and lora_B weights once, found '.*query\.lora_B",
        ),
        (lora(magnitude=(HIDDEN,)), LORA, "each layer's lora_A and lora_B weights once, found '.*magnitude'"),
        (other_alpha, LORA, "a plain peft LoRA .*, found {'alpha_pattern': {'query': 32}}"),
        (parallel(down__0__weight=(4, 5)), CLA, r"hidden size 8 throughout, found down weight \[4, 5\]"),
        (parallel(up__weight=(HIDDEN, 3)), CLA, r"one bottleneck .* up weight \[8, 3\]"),
        (parallel(down__0__weight=()), CLA, r"one bottleneck .* down weight \[\]"),
        (parallel(down__0__bias=(1,)), CLA, r"one bottleneck .* down bias \[1\]"),
        (parallel(up__bias=None), CLA, "one bottleneck .* up bias missing"),
        (
            parallel(down__0__weight=(0, HIDDEN), down__0__bias=(0,), up__weight=(HIDDEN, 0)),
            CLA,
            r"one bottleneck .* down weight \[0, 8\]",
        ),
        (parallel(down__weight=(4, HIDDEN)), CLA, "each layer's adapter_down and adapter_up once"),
    ],
)
def test_parts_that_do_not_fit(hub: Hub, damage: Callable[[Path], None], file: str, message: str) -> None:
    damage(hub.version_folder("kk"))
    update_card(hub.folder("kk"))
    with pytest.raises(HubError, match=rf"cannot be used:\n  {file}: .*{message}"):
        hub.read("kk")


def changed_byte(root: Path) -> None:
    path = root / "embeddings.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (changed_byte, "kk/embeddings.safetensors: expected sha256 [0-9a-f]{64}, found [0-9a-f]{64}"),
        (lambda root: (root / "notes.txt").touch(), "kk/notes.txt: not in the card"),
        (lambda root: (root / "README.md").write_text("short"), r"kk/README.md: expected \d+ bytes, found 5"),
        (lambda root: (root / "README.md").unlink(), "kk/README.md: expected by the card, not found"),
        (lambda root: (root.parent / "card.json").write_text("{"), "kk/card.json: .*expected readable JSON"),
        (
            lambda root: shutil.rmtree(root / "tokenizer"),
            "kk/tokenizer/tokenizer.json: .* not found",
        ),
    ],
)
def test_verify_names_language_and_file(hub: Hub, damage: Callable[[Path], object], message: str) -> None:
    damage(hub.version_folder("kk"))
    issues = hub.verify()
    assert all(issue.startswith("kk/") for issue in issues)
    with pytest.raises(AssertionError, match=message):
        raise AssertionError("\n".join(issues))
    assert hub.verify("az") == []


def test_weights_that_are_no_numbers_are_seen(hub: Hub) -> None:
    path = hub.version_folder("kk") / "embeddings.safetensors"
    table = np.zeros((PIECES, HIDDEN), np.float16)
    table[2, 3] = np.inf
    save_file({"embeddings": table}, path)
    update_card(hub.path / "kk")
    message = r"embeddings\.safetensors: embeddings: expected weights from -1000 to 1000, found 0 to inf"
    with pytest.raises(HubError, match=message):
        hub.read("kk")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (integers(scales=np.nan), "scales: expected weights from 0 to 7.87402, found nan to nan"),
        (integers(scales=-0.5), "scales: expected weights from 0 to 7.87402, found -0.5 to 0"),
        (integers(scales=8.0), "scales: expected weights from 0 to 7.87402, found 0 to 8"),
        (integers(rows=-128), "embeddings: expected weights from -127 to 127, found -128 to 0"),
    ],
)
def test_scales_and_integers_are_within_bounds(
    hub: Hub, damage: Callable[[Path], None], message: str
) -> None:
    damage(hub.version_folder("kk"))
    update_card(hub.folder("kk"))
    with pytest.raises(HubError, match=rf"{EMBEDDINGS}: {message}; train the language again"):
        hub.read("kk")


@pytest.mark.parametrize("scale", [0.0, 0.5, np.float32(1000) / np.float32(127)])
def test_embeddings_may_be_integers_with_scales(hub: Hub, scale: float) -> None:
    root = hub.version_folder("kk")
    integers(rows=-127, scales=scale)(root)
    update_card(hub.folder("kk"))
    hub.read("kk")


def test_a_folder_under_another_name_or_base(hub: Hub) -> None:
    (hub.path / "kk").rename(hub.path / "ky")
    path = hub.path / "ky" / "card.json"
    edit_json(path, base_fingerprint="beef")
    bases = "expected modules for the base tiny/base (f00d), found modules for tiny/base (beef); use a hub of"
    assert hub.verify() == [
        "ky/card.json: expected the modules of 'ky', found those of 'kk'",
        f"ky/card.json: {bases} that base",
    ]
    with pytest.raises(HubError, match=r"card\.json: expected the modules of 'ky', found those of 'kk'"):
        hub.read("ky")
    path = hub.path / "az" / "card.json"
    edit_json(path, base_fingerprint="beef")
    with pytest.raises(HubError, match=r"az cannot be used:\n  card\.json: expected modules for the base"):
        hub.read("az")


def test_a_card_or_hub_may_be_corrected_by_hand(hub: Hub) -> None:
    edit_json(hub.path / "kk" / "card.json", licenses=["CC BY 4.0"])
    edit_json(hub.path / "hub.json", max_length=32)
    again = Hub.open(hub.path)
    assert again.verify() == []
    assert (again.card("kk").licenses, again.info.max_length) == (["CC BY 4.0"], 32)
    assert again.read("kk").embeddings is not None


@pytest.mark.parametrize("part", ["la", "se", "cla", "tokenizer"])
def test_a_part_behind_a_link_is_refused(hub: Hub, tmp_path: Path, part: str) -> None:
    root = hub.version_folder("kk")
    (root / part).rename(tmp_path / part)
    (root / part).symlink_to(tmp_path / part)
    with pytest.raises(HubError, match=part):
        hub.read("kk")
    files = {name: of for name, of in hub.card("kk").files.items() if not name.startswith(part)}
    edit_json(hub.folder("kk") / "card.json", files=files)
    with pytest.raises(HubError, match=part):
        hub.read("kk")
