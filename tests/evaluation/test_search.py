"""Search within languages, across and in one pool, by a system with known vectors."""

import numpy as np
import pytest
from tiny_recipe import write_table
from tiny_suites import task

from modenc.data.kinds import SearchRow
from modenc.evaluation.retrieval import unit
from modenc.evaluation.runner import run_suite
from modenc.evaluation.search import make_search_set, search_metrics
from modenc.evaluation.suite import load_suite

LANGUAGES = ("en", "kk", "az")
METRICS = ("ndcg_at_10", "accuracy_at_1", "mrr_at_10")
COUNT = 30


class KnownVectors:
    """A system whose vectors of a text are drawn with the text as the seed, around those of its content."""

    name = "known"

    def encode(self, texts, lang):
        return np.stack([self._vector(text, lang) for text in texts]).astype(np.float32)

    def _vector(self, text, lang):
        number = int(text.split()[-1])
        content = np.random.default_rng(number).normal(size=16)
        noise = np.random.default_rng(list(text.encode())).normal(size=16)
        language = np.random.default_rng(1000 + LANGUAGES.index(lang)).normal(size=16)
        return content + 1.1 * noise + 0.4 * language

    def describe(self):
        return {}


@pytest.fixture
def data(tmp_path):
    """Questions with passages: every third passage has two questions; az lacks ten passages."""
    for lang in LANGUAGES:
        rows = [
            (f"{lang} question{extra} {number}", f"{lang} passage {number}", f"doc#{number}")
            for number in range(COUNT if lang != "az" else COUNT - 10)
            for extra in (["", " again"] if number % 3 == 0 else [""])
        ]
        half = len(rows) // 2
        write_table(tmp_path / f"first.{lang}.tsv", ("query", "passage", "group"), rows[:half])
        write_table(tmp_path / f"last.{lang}.tsv", ("query", "passage", "group"), rows[half:][::-1])
    suite = [
        task("docs", "search", "first.{lang}.tsv", languages=LANGUAGES),
        task("docs", "search", "last.{lang}.tsv", languages=LANGUAGES),
        task("one", "search", "first.{lang}.tsv", languages=["en"]),
    ]
    (tmp_path / "suite.toml").write_text("".join(suite), encoding="utf-8")
    return tmp_path


def _rows(data, lang):
    files = [data / f"{part}.{lang}.tsv" for part in ("first", "last")]
    return [line.split("\t") for file in files for line in file.read_text().splitlines()[1:]]


def test_search_is_what_a_loop_over_all_passages_gives(data):
    outcome = run_suite(KnownVectors(), load_suite(data / "suite.toml"), data, seed=3)
    encode = KnownVectors().encode
    found = {}
    pool = [(lang, group, text) for lang in LANGUAGES for _, text, group in _rows(data, lang)]
    pool = list(dict.fromkeys(pool))
    pooled = np.concatenate([unit(encode([text], lang)) for lang, _, text in pool])
    pool_hits, pool_own = [], []
    for left in LANGUAGES:
        for right in LANGUAGES:
            passages = list(dict.fromkeys((text, group) for _, text, group in _rows(data, right)))
            vectors = unit(encode([text for text, _ in passages], right))
            gains = []
            for query, _, wanted in _rows(data, left):
                if wanted not in {group for _, group in passages}:
                    continue
                scores = vectors @ unit(encode([query], left))[0]
                order = [passages[row][1] for row in np.argsort(-scores)[:10]]
                rank = order.index(wanted) + 1 if wanted in order else np.inf
                gains.append((1 / np.log2(rank + 1), float(rank == 1), 1 / rank))
                if left == right:
                    best = int(np.argmax(pooled @ unit(encode([query], left))[0]))
                    pool_hits.append(pool[best][1] == wanted)
                    pool_own.append(pool[best][0] == left)
            key = left if left == right else f"{left}-{right}"
            for metric, values in zip(
                ("ndcg_at_10", "accuracy_at_1", "mrr_at_10"), zip(*gains, strict=True), strict=True
            ):
                found[f"docs.{metric}.{key}"] = (100 * np.mean(values), len(gains))
    # Questions of the ten passages that az lacks have an answer in the other two.
    found["docs.pool_accuracy_at_1.en-kk-az"] = (100 * np.mean(pool_hits), len(pool_hits))
    found["docs.pool_own_language.en-kk-az"] = (100 * np.mean(pool_own), len(pool_own))
    measured = {r.key: (r.value, r.n) for r in outcome.results if r.task == "docs"}
    assert measured.keys() == found.keys()
    for key, (value, count) in found.items():
        assert measured[key] == (pytest.approx(value), count), key
    assert 20 < found["docs.accuracy_at_1.en"][0] < 98
    assert {r.key for r in outcome.results if r.task == "one"} == {f"one.{metric}.en" for metric in METRICS}


def test_several_answers_of_one_query():
    found = make_search_set(
        SearchRow(query, passage) for query, passage in [("q", "a"), ("q", "b"), ("r", "a")]
    )
    assert (found.queries, found.passages, found.answers) == (["q", "r"], ["a", "b"], [{0, 1}, {0}])
    passages = np.eye(3, dtype=np.float32)
    queries = np.array([[0.5, 0.1, 0.9], [0.1, 0.9, 0.5]], dtype=np.float32)
    scores = search_metrics(queries, passages, [{0, 1}, {0}])
    best = 1 + 1 / np.log2(3)
    assert scores["ndcg_at_10"][:, 0] == pytest.approx([(1 / np.log2(3) + 0.5) / best, 0.5])
    assert scores["mrr_at_10"][:, 0] == pytest.approx([1 / 2, 1 / 3])
    assert scores["accuracy_at_1"].sum() == 0
