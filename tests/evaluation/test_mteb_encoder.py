"""MTEB's own evaluation of a tiny hub, on tasks that need no hub of data."""

import pytest
import tiny_models

mteb = pytest.importorskip("mteb", reason="the extra mteb is not installed")

from datasets import Dataset, DatasetDict  # noqa: E402
from mteb.abstasks.sts import AbsTaskSTS  # noqa: E402
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402
from mteb.abstasks.text.bitext_mining import AbsTaskBitextMining  # noqa: E402

from modenc import ModularEncoder  # noqa: E402
from modenc.evaluation.mteb_encoder import MtebEncoder  # noqa: E402

KK, EN = tiny_models.sentences("kk")[:40], tiny_models.sentences("en")[:40]


def _metadata(name, kind, languages, score):
    return TaskMetadata(
        name=name,
        description="local",
        reference=None,
        dataset={"path": "local/none", "revision": "1"},
        type=kind,
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=languages,
        main_score=score,
    )


class LocalSTS(AbsTaskSTS):
    """Similarity within each language and across."""

    metadata = _metadata(
        "LocalSTS",
        "STS",
        {"kk": ["kaz-Cyrl"], "en-kk": ["eng-Latn", "kaz-Cyrl"]},
        "cosine_spearman",
    )
    min_score, max_score = 0, 5

    def load_data(self, **_):
        rows = {
            "kk": (KK[:20], KK[1:21]),
            "en-kk": (EN[:20], KK[1:21]),
        }
        self.dataset = {
            name: DatasetDict(
                test=Dataset.from_dict(
                    {"sentence1": left, "sentence2": right, "score": [float(i % 6) for i in range(20)]}
                )
            )
            for name, (left, right) in rows.items()
        }
        self.data_loaded = True


class LocalBitext(AbsTaskBitextMining):
    """Translations."""

    metadata = _metadata("LocalBitext", "BitextMining", {"eng-kaz": ["eng-Latn", "kaz-Cyrl"]}, "f1")

    def load_data(self, **_):
        self.dataset = {"eng-kaz": DatasetDict(test=Dataset.from_dict({"sentence1": EN, "sentence2": KK}))}
        self.data_loaded = True


@pytest.fixture
def recorded(tiny_hub, monkeypatch):
    """The hub's encoder, and the languages that it is given, in their order."""
    encoder, langs = ModularEncoder(tiny_hub.path), []
    encode = encoder.encode
    monkeypatch.setattr(
        encoder, "encode", lambda *a, lang=None, **k: (langs.append(lang), encode(*a, lang=lang, **k))[1]
    )
    return encoder, langs


def test_each_side_gets_its_language(recorded):
    encoder, langs = recorded
    results = mteb.evaluate(MtebEncoder(encoder), [LocalSTS(), LocalBitext()], cache=None)
    assert langs == ["kk", "kk", "en", "kk", "en", "kk"]
    scores = {
        (result.task_name, subset["hf_subset"]): subset["main_score"]
        for result in results.task_results
        for subset in result.scores["test"]
    }
    assert set(scores) == {("LocalSTS", "kk"), ("LocalSTS", "en-kk"), ("LocalBitext", "eng-kaz")}
    assert all(-1 <= score <= 1 for score in scores.values())


def test_the_encoder_itself_is_accepted(tiny_hub):
    encoder = ModularEncoder(tiny_hub.path, fallback="base")
    results = mteb.evaluate(encoder, [LocalBitext()], cache=None)
    assert results.task_results[0].scores["test"][0]["main_score"] >= 0


def test_a_subset_without_a_language_is_identified(recorded):
    encoder, _ = recorded
    wrapper = MtebEncoder(encoder)
    assert wrapper.choose_language(["x"], LocalSTS.metadata, "default") is None
    assert wrapper.choose_language(["x"], LocalSTS.metadata, "kaz_Cyrl") == "kk"
