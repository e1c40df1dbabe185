"""Bases from strangers: pinned, without pickles, and nothing of theirs is run."""

import json
import os
import shutil

import pytest
import torch
from huggingface_hub import constants
from huggingface_hub.utils import filter_repo_objects
from safetensors.torch import load_file, save_file
from tiny_languages import edit_json
from transformers import AutoModel, AutoTokenizer

from modenc import ModularEncoder
from modenc.base_model import resolve, resolve_base, trust
from modenc.composition.st_module import ModularTransformer
from modenc.errors import BaseModelError, HubError

COMMIT = "0123456789" * 4
INDEX = "model.safetensors.index.json"


def in_pieces(base, folder):
    """A copy of a base whose weights are in two shards with an index."""
    shutil.copytree(base, folder)
    (folder / "model.safetensors").unlink()
    AutoModel.from_pretrained(base).save_pretrained(folder, max_shard_size="50KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    return folder


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Makes a folder what is downloaded of ``somebody/base``."""

    def put(folder):
        cache = tmp_path / "hub"
        repository = cache / "models--somebody--base"
        shutil.copytree(folder, repository / "snapshots" / COMMIT)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text(COMMIT)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        return repository / "snapshots" / COMMIT

    return put


def test_a_revision_pins_a_base():
    base = resolve_base("FacebookAI/xlm-roberta-base@e73636d4f797dec63c3081bb6ed5c7b0bb3f2089")
    assert base.location == "FacebookAI/xlm-roberta-base"
    assert base.revision == "e73636d4f797dec63c3081bb6ed5c7b0bb3f2089"
    assert resolve_base("FacebookAI/xlm-roberta-base").revision is None
    assert resolve_base("org/model@refs/pr/3").revision == "refs/pr/3"
    with pytest.raises(BaseModelError, match="expected a revision after the @"):
        resolve_base("org/model@")


def test_a_folder_may_have_an_at_sign_in_its_name(tiny_xlmr, tmp_path):
    folder = tmp_path / "mine@home"
    shutil.copytree(tiny_xlmr, folder)
    assert resolve_base(str(folder)).location == str(folder)


def test_code_beside_a_base_is_never_run(tmp_path):
    config = {"model_type": "mine", "auto_map": {"AutoConfig": "code.Config", "AutoModel": "code.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(BaseModelError, match=r"modenc never runs \(trust_remote_code is off\)"):
        resolve_base(str(tmp_path)).load_body()
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def loadings(monkeypatch):
    """The folder and the options that each loader of transformers is called with."""
    calls = []
    for kind in (resolve.AutoConfig, resolve.AutoModel, resolve.AutoTokenizer):
        made = kind.from_pretrained

        def noted(folder, made=made, **options):
            calls.append((folder, options))
            return made(folder, **options)

        monkeypatch.setattr(kind, "from_pretrained", noted)
    return calls


def test_no_loader_is_left_to_ask_whether_code_may_run(tiny_xlmr, loadings):
    base = resolve_base(str(tiny_xlmr))
    base.load_body()
    base.load_tokenizer()
    assert len(loadings) >= 3
    assert not any(options["trust_remote_code"] for _, options in loadings)


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        (
            "position_embedding_type",
            "relative_key",
            "position_embedding_type 'relative_key', is_decoder False",
        ),
        ("is_decoder", True, "position_embedding_type 'absolute', is_decoder True"),
    ],
)
def test_a_body_that_no_engine_can_run_is_refused(tiny_bert, tmp_path, key, value, found):
    folder = shutil.copytree(tiny_bert, tmp_path / "base")
    edit_json(folder / "config.json", **{key: value})
    with pytest.raises(BaseModelError, match=f"expected an encoder with absolute positions.*{found}; choose"):
        resolve_base(str(folder)).load_body()


def test_a_tokenizer_neither_cuts_nor_pads(tiny_xlmr, tmp_path):
    base = shutil.copytree(tiny_xlmr, tmp_path / "base")
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.backend_tokenizer.enable_truncation(4)
    tokenizer.backend_tokenizer.enable_padding(length=4)
    tokenizer.backend_tokenizer.save(str(base / "tokenizer.json"))
    loaded = resolve_base(str(base)).load_tokenizer()
    assert len(loaded.backend_tokenizer.encode("Мұғалім жаңа кітапты оқиды.").ids) > 4
    assert len(loaded.backend_tokenizer.encode("").ids) < 4


def test_a_peft_folder_is_no_base(tiny_xlmr, tmp_path):
    shutil.copytree(tiny_xlmr, tmp_path / "base")
    (tmp_path / "base" / "adapter_config.json").write_text("{}")
    with pytest.raises(BaseModelError, match="is a peft adapter"):
        resolve_base(str(tmp_path / "base")).load_body()


def test_of_a_base_elsewhere_neither_code_nor_pickles_are_fetched(tiny_xlmr, monkeypatch):
    asked = {}
    monkeypatch.setattr(trust, "snapshot_download", lambda _, **how: asked.update(how) or str(tiny_xlmr))
    assert resolve_base("somebody/base").folder == tiny_xlmr
    names = [file.name for file in tiny_xlmr.iterdir()]
    patterns = {name: asked[name] for name in ("allow_patterns", "ignore_patterns")}
    there = [*names, "pytorch_model.bin", "mine.py", "onnx/model.json"]
    assert list(filter_repo_objects(there, **patterns)) == names


@pytest.mark.parametrize(
    ("name", "content"),
    [("config.json", "[]"), ("model.safetensors", "cut"), ("tokenizer.json", "{}")],
)
def test_a_damaged_base_is_said_clearly(tiny_xlmr, tmp_path, name, content):
    folder = shutil.copytree(tiny_xlmr, tmp_path / "base")
    (folder / name).write_text(content)
    base = resolve_base(str(folder))
    with pytest.raises(BaseModelError, match=r"cannot be loaded|has no fast tokenizer"):
        base.load_tokenizer() if name == "tokenizer.json" else base.load_body()


def test_pickled_weights_are_refused(tiny_xlmr, tmp_path):
    folder = tmp_path / "base"
    shutil.copytree(tiny_xlmr, folder)
    (file,) = folder.glob("*.safetensors")
    torch.save(load_file(file), folder / "pytorch_model.bin")
    file.unlink()
    with pytest.raises(BaseModelError, match=r"has no safetensors .* modenc reads no pickles"):
        resolve_base(str(folder)).load_body()


def test_weights_in_pieces_are_read(tiny_xlmr, tmp_path):
    base = resolve_base(str(in_pieces(tiny_xlmr, tmp_path / "base")))
    assert base.fingerprint == resolve_base(str(tiny_xlmr)).fingerprint


@pytest.mark.parametrize("file", ["pytorch_model.bin", "../other.safetensors", "/tmp/other.safetensors", 7])
@pytest.mark.parametrize("remote", [False, True])
def test_an_index_names_only_safetensors_beside_it(tiny_xlmr, tmp_path, elsewhere, opened, remote, file):
    folder = in_pieces(tiny_xlmr, tmp_path / "base")
    torch.save({}, folder / "pytorch_model.bin")
    edit_json(folder / INDEX, weight_map={"embeddings.word_embeddings.weight": file})
    if remote:
        elsewhere(folder)
    with pytest.raises(
        BaseModelError, match=r"expected names of safetensors files in the same folder in .*, found "
    ):
        resolve_base("somebody/base" if remote else str(folder)).load_body()
    assert not opened


@pytest.mark.parametrize("content", ["{}", "[]", '{"weight_map": ["a"]}', "cut"])
def test_a_damaged_index_is_said_clearly(tiny_xlmr, tmp_path, content):
    folder = in_pieces(tiny_xlmr, tmp_path / "base")
    (folder / INDEX).write_text(content)
    with pytest.raises(BaseModelError, match=r"expected a readable model\.safetensors\.index\.json"):
        resolve_base(str(folder)).load_body()


@pytest.mark.parametrize("pin", ["", f"@{COMMIT}"])
def test_all_files_of_a_base_elsewhere_are_of_one_commit(tiny_xlmr, elsewhere, loadings, pin):
    elsewhere(tiny_xlmr)
    base = resolve_base(f"somebody/base{pin}")
    base.load_tokenizer()
    body, fingerprint = base.load_with_fingerprint()
    assert {folder.name for folder, _ in loadings} == {COMMIT}
    assert fingerprint == resolve.compute_fingerprint(body) == resolve_base(str(tiny_xlmr)).fingerprint


@pytest.fixture
def attention(monkeypatch):
    """What transformers is asked for as attention, which it would fetch."""
    asked = []
    monkeypatch.setattr(
        "transformers.PreTrainedModel._check_and_adjust_attn_implementation",
        lambda self, wanted, *_, **__: asked.append(wanted) or "eager",
    )
    return asked


@pytest.mark.parametrize("wanted", ["somebody/attention", {"": "somebody/attention"}, "flash_attention_2"])
def test_a_config_names_nobodys_attention(tiny_xlmr, tmp_path, attention, wanted):
    folder = shutil.copytree(tiny_xlmr, tmp_path / "base")
    edit_json(folder / "config.json", _attn_implementation=wanted)
    with pytest.raises(BaseModelError, match=r"expected attention 'eager' or 'sdpa' in its config\.json"):
        resolve_base(str(folder)).load_body()
    assert not attention


def test_attention_of_torch_is_taken(tiny_xlmr, tmp_path):
    for asked in (None, "eager", "sdpa"):
        folder = shutil.copytree(tiny_xlmr, tmp_path / str(asked))
        edit_json(folder / "config.json", _attn_implementation=asked)
        assert resolve_base(str(folder)).load_body().config._attn_implementation == (asked or "sdpa")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("quantization_config", {"quant_method": "bitsandbytes", "load_in_8bit": True}),
        ("transformers_weights", "other.safetensors.index.json"),
        ("transformers_weights", "adapter_model.bin"),
        ("fusion_config", {"patch": True}),
    ],
)
def test_a_config_brings_nothing_of_its_own(tiny_xlmr, tmp_path, opened, key, value):
    folder = shutil.copytree(tiny_xlmr, tmp_path / "base")
    torch.save({}, folder / "adapter_model.bin")
    weights = {"embeddings.word_embeddings.weight": "adapter_model.bin"}
    (folder / "other.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    edit_json(folder / "config.json", **{key: value})
    with pytest.raises(BaseModelError, match=f"expected no {key} in its config.json"):
        resolve_base(str(folder)).load_body()
    assert not opened


@pytest.fixture
def computed(monkeypatch, tmp_path):
    """A line for each fingerprint that is computed."""
    made = []
    compute = resolve.compute_fingerprint
    monkeypatch.setenv("MODENC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(resolve, "compute_fingerprint", lambda body: made.append(1) or compute(body))
    return made


def test_a_base_that_changes_in_place_is_not_taken_for_the_old_one(tiny_hub, tiny_xlmr, tmp_path, computed):
    folder = shutil.copytree(tiny_xlmr, tmp_path / "base")
    for _ in range(2):
        ModularTransformer(tiny_hub, str(folder))
    assert len(computed) == 1
    weights = folder / "model.safetensors"
    times = weights.stat()
    save_file({name: tensor + 1 for name, tensor in load_file(weights).items()}, weights, {"format": "pt"})
    assert weights.stat().st_size == times.st_size
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(BaseModelError, match="expected the weights that the modules"):
        ModularTransformer(tiny_hub, str(folder))
    assert len(computed) == 2


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("no/such/folder", {}, "expected a hub's folder, found no such folder; nor is it the id of a hub on"),
        ("./nowhere", {"revision": COMMIT}, "nor is it the id of a hub on Hugging Face"),
        ("org/hub", {}, "org/hub at main: Hugging Face refuses this or cannot be reached .*HF_HUB_OFFLINE"),
        (
            "org/hub",
            {"local_files_only": True},
            "found some missing, and local_files_only is set; use the hub",
        ),
        ("FOLDER", {"revision": COMMIT}, "only applies to hubs on Hugging Face, and this is a local folder"),
    ],
)
def test_what_is_neither_a_folder_nor_to_be_had_is_said_so(tiny_hub, name, options, message):
    with pytest.raises(HubError, match=message):
        ModularEncoder(str(tiny_hub.path) if name == "FOLDER" else name, **options)
