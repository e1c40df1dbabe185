"""Stage 2: learning from the pivot."""

from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from trainings import NO_DEV, hashes, record

from modenc import ModularEncoder
from modenc.base_model import resolve_base
from modenc.composition.body import compose
from modenc.composition.modules import read_modules
from modenc.hub.layout import parts_in
from modenc.hub.store import Hub
from modenc.recipe.loader import load_recipe
from modenc.recipe.settings import STAGES
from modenc.training import language_adaptation
from modenc.training.adapters_io import scaled_adapter
from modenc.training.data_access import TrainingData
from modenc.training.pipeline import train
from modenc.training.stage import iterate_stages

PIVOT = [
    "languages.kk.language_adaptation.objective=pivot",
    "languages.kk.language_adaptation.embedding_learning_rate=0.01",
    "languages.kk.sentence_encoding.start=en",
    "languages.kk.sentence_encoding.objective=none",
]


@pytest.mark.slow
def test_embeddings_learn_from_the_pivot(copied):
    """With stage 4's data, and the adapter in place that stage 3 then copies."""
    steps = "languages.kk.language_adaptation.optimizer.steps=40"
    recipe = load_recipe(copied, [*PIVOT, steps, "languages.kk.data.dev.sts=[]"])
    train(recipe, languages=["kk"])
    runs = copied.parent / "runs" / "kk"
    cut, adapted, encoding = (hashes(runs / stage / "kk") for stage in STAGES[:3])
    moved = {name.split("/")[0] for name in adapted if cut.get(name) != adapted[name]}
    assert moved == {"la", "embeddings.safetensors"}
    hub = Hub.open(copied.parent / "hub")
    english = hashes(hub.version_folder("en") / "se")
    assert {name: checksum for name, checksum in encoding.items() if name.startswith("se/")} == {
        f"se/{name}": checksum for name, checksum in english.items()
    }
    card = hub.card("kk")
    metrics = card.stages["language_adaptation"]["metrics"]
    assert metrics["steps"] == 40
    # Held-out translations come nearer to the pivot's.
    assert metrics["dev_after"]["similarity"] > metrics["dev_before"]["similarity"] + 1
    assert card.stages["language_adaptation"]["settings"]["alignment"]["objective"] == "joint"
    assert "la" in parts_in(hub.version_folder("kk"))


@pytest.mark.slow
def test_strength_is_the_share_of_what_was_learned_that_is_kept(copied):
    base = ["languages.kk.language_adaptation.optimizer.steps=2", *NO_DEV, *PIVOT]
    vectors, updates = [], []
    for strength in (1.0, 0.25):
        recipe = load_recipe(copied, [*base, f"languages.kk.language_adaptation.strength={strength}"])
        train(recipe, languages=["kk"])
        folder = copied.parent / "runs" / "kk" / "language_adaptation" / "kk"
        vectors.append(load_file(folder / "embeddings.safetensors")["embeddings"].float())
        adapter = load_file(folder / "la" / "adapter_model.safetensors")
        updates.append(torch.cat([adapter[key].flatten() for key in sorted(adapter) if "lora_B" in key]))
    start = load_file(copied.parent / "runs/kk/vocabulary/kk/embeddings.safetensors")["embeddings"].float()
    assert (vectors[0] - start).abs().max() > 1e-3
    # Half precision rounds each number; their share is exact enough.
    whole, part = (table - start for table in vectors)
    assert ((whole * part).sum() / whole.square().sum()).item() == pytest.approx(0.25, abs=0.005)
    assert updates[0].abs().max() > 0
    assert torch.allclose(updates[1], 0.25 * updates[0], rtol=1e-3, atol=1e-6)


def test_weights_are_whole_again_after_an_evaluation():
    table, b = nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.full((2, 2), 4.0))
    model = nn.Module()
    model.get_input_embeddings = lambda: SimpleNamespace(weight=table)
    model.register_parameter("x", b)
    model.named_parameters = lambda: [("layer.lora_B.default.weight", b)]
    with scaled_adapter(model, 0.25, torch.zeros(3, 2)):
        assert torch.equal(table, torch.full((3, 2), 0.25))
        assert torch.equal(b, torch.full((2, 2), 1.0))
    assert torch.equal(table, torch.ones(3, 2))
    assert torch.equal(b, torch.full((2, 2), 4.0))


@pytest.mark.parametrize("objective", ["pivot", "distill", "mlm+distill"])
def test_it_learns_with_the_adapter_that_stage_three_starts_from(copied, monkeypatch, objective):
    """The body that learns is the vocabulary's and that adapter's together, before LA.

    Beside masked words it is the base's alone.
    """
    seen = []

    def add_lora(body, *settings):
        seen.append({name: tensor.clone() for name, tensor in body.state_dict().items()})
        raise KeyboardInterrupt

    # On so small a dev set the start often wins, and the adapter would change nothing.
    settings = [*PIVOT, *NO_DEV, f"languages.kk.language_adaptation.objective={objective}"]
    recipe = load_recipe(copied, settings)
    train(recipe, languages=["en"])
    monkeypatch.setattr(language_adaptation, "add_lora", add_lora)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, languages=["kk"])
    base = resolve_base(recipe.plans["kk"].base.model)
    folder = copied.parent / "runs" / "kk" / "vocabulary" / "kk"
    vocabulary = read_modules(folder, base.hidden_size)
    english = load_file(Hub.open(copied.parent / "hub").version_folder("en") / "se/adapter_model.safetensors")
    name = "encoder.layer.0.output.dense"
    (a,), (b,) = ([english[key] for key in english if name in key and part in key] for part in "AB")
    before = compose(base.load_body(), vocabulary, align=False).state_dict()
    change = seen[0][f"{name}.weight"] - before[f"{name}.weight"]
    if objective == "mlm+distill":
        assert change.abs().max() == 0
        return
    assert torch.allclose(change, 2 * b.float() @ a.float(), atol=1e-6)
    assert change.abs().max() > 1e-4
    table = "embeddings.word_embeddings.weight"
    assert torch.equal(seen[0][table], before[table])


def test_a_vocabulary_learns_the_vectors_of_the_bases_pieces_with_that_adapter(copied, monkeypatch):
    """The teacher is the base with the adapter of the start, so the base's own pieces are at their goal."""
    kept = []

    class Loss(language_adaptation.DistillationLoss):
        def __init__(self, student, teacher, *rest):
            kept.append((student, teacher))
            super().__init__(student, teacher, *rest)

    distill = ["languages.kk.language_adaptation.objective=distill", "languages.kk.vocabulary.method=base"]
    recipe = load_recipe(copied, [*PIVOT[2:], *NO_DEV, *distill])
    train(recipe, languages=["en"])
    monkeypatch.setattr(language_adaptation, "DistillationLoss", Loss)
    monkeypatch.setattr(
        language_adaptation, "train_sentence_model", lambda *inputs, **_: kept.append(inputs) or {}
    )
    train(recipe, languages=["kk"])
    (student, teacher), (_, _, _, rows, *_) = kept
    torch.testing.assert_close(
        torch.from_numpy(student.encode(rows["text"], normalize_embeddings=True)), teacher
    )
    base = recipe.plans["kk"].base
    plain = ModularEncoder(recipe.hub).encode(rows["text"], lang="base", normalize_embeddings=True)
    assert base.prompt == ModularEncoder(recipe.hub).hub.info.prompt
    assert (torch.from_numpy(plain) - teacher).abs().max() > 1e-4


def test_the_pivot_itself_does_not_learn_from_the_pivot(copied):
    settings = ["languages.en.language_adaptation.objective=pivot", "vocabulary.method=base"]
    train(load_recipe(copied, settings), languages=["en"])
    assert record(copied, "en", "language_adaptation")["metrics"].keys() == {"threads"}


def test_a_body_that_trains_leaves_the_modules_before_as_they_are(copied):
    recipe = load_recipe(copied, ["vocabulary.storage=int8"])
    train(recipe, languages=["en"])
    plan = recipe.plans["en"]
    base, hub = resolve_base(plan.base.model), Hub.open(recipe.hub)
    _, stage, *_ = iterate_stages(base, hub, TrainingData(plan))
    table = stage.body_and_tokenizer()[0].get_input_embeddings().weight
    before = table.clone()
    with torch.no_grad():
        table += 1
    assert stage.body_and_tokenizer()[0].get_input_embeddings().weight.equal(before)
