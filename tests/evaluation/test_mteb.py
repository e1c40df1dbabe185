"""MTEB's own evaluation of a tiny hub, on a task that needs no hub of data."""

import pytest
import tiny_models

mteb = pytest.importorskip("mteb", reason="mteb is not installed")

from datasets import Dataset, DatasetDict  # noqa: E402
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402
from mteb.abstasks.text.bitext_mining import AbsTaskBitextMining  # noqa: E402

from modenc import ModularEncoder  # noqa: E402


class LocalBitext(AbsTaskBitextMining):
    """Translations."""

    metadata = TaskMetadata(
        name="LocalBitext",
        description="local",
        reference=None,
        dataset={"path": "local/none", "revision": "1"},
        type="BitextMining",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs={"eng-kaz": ["eng-Latn", "kaz-Cyrl"]},
        main_score="f1",
    )

    def load_data(self, **_):
        sides = {f"sentence{side}": tiny_models.sentences(lang)[:40] for side, lang in ((1, "en"), (2, "kk"))}
        self.dataset = {"eng-kaz": DatasetDict(test=Dataset.from_dict(sides))}
        self.data_loaded = True


def test_mteb_takes_the_encoder(tiny_hub):
    encoder = ModularEncoder(tiny_hub.path, fallback="base")
    (result,) = mteb.evaluate(encoder, [LocalBitext()], cache=None).task_results
    (scores,) = result.scores["test"]
    assert scores["hf_subset"] == "eng-kaz"
    assert 0 < scores["main_score"] <= 1
