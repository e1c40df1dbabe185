"""Names that other libraries do not promise: all of them in docs/upgrading.md, each noticed when it moves."""

import ast
import platform
import re
import sys
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from tiny_models import sentences
from transformers.trainer_callback import ProgressCallback

from modenc import ModularEncoder
from modenc.composition.kernels import onednn_works

ROOT = Path(__file__).resolve().parent.parent
UPGRADING = (ROOT / "docs" / "upgrading.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in UPGRADING.splitlines()
    if line.startswith("|") and "---" not in line and not line.startswith("| name |")
]


def _private(name):
    return name.startswith("_") and not name.startswith("__")


def _foreign_private_names():
    """Private attributes, imports and keywords in modenc that it does not define, or that are a parent's."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "modenc").rglob("*.py")]
    own, used = set(), set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                own.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                own.add(name)
    for node in (node for tree in trees for node in ast.walk(tree)):
        match node:
            case ast.Attribute(attr=name, value=ast.Call(func=ast.Name(id="super"))) if _private(name):
                used.add(name)
            case ast.Attribute(attr=name) if _private(name) and name not in own:
                used.add(name)
            case ast.ImportFrom(module=str(module), names=names) if not module.startswith("modenc"):
                used |= {part for part in module.split(".") if _private(part)}
                used |= {alias.name for alias in names if _private(alias.name)}
            case ast.keyword(arg=str(name)) if _private(name):
                used.add(name)
    return used


def test_every_private_name_of_another_library_is_listed():
    found = _foreign_private_names()
    assert len(found) >= 5
    missing = sorted(name for name in found if not re.search(rf"\b{name}\b", UPGRADING))
    assert missing == [], "add them to docs/upgrading.md, with the test that notices when they move"


@pytest.mark.parametrize(("name", "places", "breaks", "tests"), ROWS, ids=[row[0][:40] for row in ROWS])
def test_what_is_listed_is_there(name, places, breaks, tests):
    assert breaks
    code = "".join((ROOT / place).read_text(encoding="utf-8") for place in re.findall(r"`(.+?)`", places))
    for word in re.findall(r"`(.+?)`", name):
        last = re.findall(r"\w+", word.partition("(")[0])[-1]
        assert last in code, f"{word} is not used in {places}"
    for file, _, function in (test.partition("::") for test in re.findall(r"`(.+?)`", tests)):
        assert f"def {function or 'test_'}" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux", reason="torch is built otherwise elsewhere"
)
def test_torch_has_the_operators_that_only_speed_depends_on():
    assert onednn_works(torch.float32)
    for place, name in (
        (torch.cpu, "_is_avx512_bf16_supported"),
        (torch.cpu, "_is_amx_tile_supported"),
        (torch.cpu, "get_capabilities"),
        (torch.ops.mkldnn, "_is_mkldnn_bf16_supported"),
    ):
        assert hasattr(place, name), name


def test_batches_are_of_one_language_where_there_are_enough_texts(tiny_hub, monkeypatch):
    encoder = ModularEncoder(tiny_hub.path)
    batches, forward = [], encoder[0].forward

    def noted(features, **options):
        batches.append(set(features["language"]))
        return forward(features, **options)

    monkeypatch.setattr(encoder[0], "forward", noted)
    texts = [text for pair in zip(sentences("kk")[:8], sentences("az")[:8], strict=True) for text in pair]
    encoder.encode(texts, lang=["kk", "az"] * 8, batch_size=4)
    assert len(batches) == 4
    assert all(len(languages) == 1 for languages in batches)


def test_what_is_overridden_is_there():
    assert {"_input_length", "_multi_process_worker"} <= set(dir(SentenceTransformer))
    pytest.importorskip("peft", reason="the training half is not installed")
    from sentence_transformers import SentenceTransformerTrainer
    from transformers import Trainer

    assert {"_save", "_load_from_checkpoint", "get_eval_dataloader"} <= set(dir(Trainer))
    hooks = {"get_multi_dataset_batch_sampler", "get_train_dataloader", "add_model_card_callback"}
    assert hooks <= set(dir(SentenceTransformerTrainer))


def test_the_bar_of_a_training_has_its_name():
    assert ProgressCallback().training_bar is None
