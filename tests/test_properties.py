"""Properties that hold for every input, on inputs that hypothesis looks for and makes small."""

from __future__ import annotations

import csv
import gzip
import io
import json
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiny_languages
import tiny_models
import tiny_recipe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from modenc import ModularEncoder
from modenc.data.formats import read_file
from modenc.errors import RecipeError
from modenc.hub.card import Card
from modenc.langid import get_identifier
from modenc.recipe.loader import load_recipe

# Seeds fixed, so that no run fails by chance; make torture looks further.
settings.register_profile(
    "modenc", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("modenc")

_MARKS = st.text(st.characters(categories=["Mn", "Cf", "Cc", "Cs", "Co", "Zs"]), max_size=30)
_WORDS = st.sampled_from([*tiny_models.sentences("kk"), *tiny_models.sentences("ug"), "<pad>", "query: ", ""])
_AROUND_WORDS = st.builds("{}{}{}".format, _WORDS, _MARKS, _WORDS)
TEXTS = st.one_of(st.text(st.characters(), max_size=80), _MARKS, _AROUND_WORDS)
"""Any string, lone surrogates too, and sentences with marks and invisible characters in them."""
_LINES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\t\r\n\0"), min_size=1, max_size=60
)
ROWS = st.tuples(_LINES, _LINES).map(lambda row: {"id": row[0], "text": row[1]})


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    root = tmp_path_factory.mktemp("properties")
    return ModularEncoder(
        tiny_languages.make_hub(root / "hub", tiny_models.save_tiny_xlmr(root / "base")).path
    )


@pytest.mark.slow
@given(texts=st.lists(TEXTS, min_size=1, max_size=8), data=st.data())
@settings(max_examples=150)
def test_a_vector_depends_on_its_text_alone(encoder, texts, data):
    together = encoder.encode(texts, normalize_embeddings=True)
    assert np.isfinite(together).all()
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    order = data.draw(st.permutations(range(len(texts))))
    shuffled = encoder.encode([texts[row] for row in order], normalize_embeddings=True, batch_size=3)
    assert np.allclose(shuffled, together[order], atol=1e-5)
    assert np.allclose(encoder.encode(texts[0], normalize_embeddings=True), together[0], atol=1e-5)


@given(texts=st.lists(TEXTS, min_size=1, max_size=8), lang=st.sampled_from([None, "kk", "az", "base"]))
@settings(max_examples=200)
def test_tokens_are_of_the_vocabulary_and_no_more_than_fit(encoder, texts, lang):
    transformer = encoder[0]
    features = encoder.preprocess(encoder.route(texts, lang))
    ids, real = features["input_ids"], features["attention_mask"]
    assert ids.shape == real.shape
    assert 1 <= ids.shape[1] <= transformer.max_seq_length
    for row, text in enumerate(encoder.route(texts, lang)):
        assert ids[row].min() >= 0
        # Padding, too, is looked up.
        assert ids[row].max() < _rows_of_table(encoder, text.lang)
        assert real[row].any()


def _rows_of_table(encoder, lang):
    """How many tokens a language's embeddings are of."""
    if lang != "base" and (own := encoder.hub.version_folder(lang) / "embeddings.safetensors").is_file():
        return len(load_file(own)["embeddings"])
    return encoder[0].auto_model.config.vocab_size


@pytest.mark.slow
@given(texts=st.lists(TEXTS, max_size=8))
@settings(max_examples=300)
def test_any_text_is_identified(texts):
    identify = get_identifier().identify
    found = identify(texts)
    assert len(found) == len(texts)
    assert found == [identify([text])[0] for text in texts]


@pytest.mark.slow
@given(rows=st.lists(ROWS, min_size=1, max_size=8), data=st.data())
@settings(max_examples=200)
def test_what_is_written_is_read(tmp_path, rows, data):
    suffix = data.draw(st.sampled_from([".jsonl", ".csv", ".tsv", ".parquet"]))
    path = tmp_path / f"rows{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text(_written(rows, suffix), encoding="utf-8", newline="")
    assert list(read_file(path)) == rows
    if suffix != ".parquet" and data.draw(st.booleans()):
        packed = path.with_name(f"{path.name}.gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        assert list(read_file(packed)) == rows


@pytest.mark.slow
@given(text=st.text(), key=st.sampled_from(["name", "recipe", "created", "base_id"]))
def test_a_card_comes_back_as_it_was(text, key):
    card = replace(tiny_languages.make_card("kk"), version="v-0123abcd", **{key: text})
    assert Card.from_json(card.to_json()) == card


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    root = tmp_path_factory.mktemp("recipes")
    return tiny_recipe.save_tiny_recipe(root / "tiny", tiny_models.save_tiny_xlmr(root / "base"))


_TOML = st.sampled_from(
    [
        *"[]{}=\"'\\,.#\n-",
        '"""',
        "true",
        "nan",
        "-inf",
        "1e400",
        "0x",
        "1979-05-27",
        "[[data]]",
        "languages.kk",
    ]
)
_KEYS = st.sampled_from(
    ["run.seed", "languages.kk", "data.text", "alignment.optimizer.steps", "base", "", "a.b"]
)
_VALUES = st.one_of(st.text(max_size=20), _TOML, st.integers().map(str), st.floats().map(str))


@given(data=st.data())
@settings(max_examples=150)
def test_a_recipe_with_other_text_in_it_is_read_or_refused(recipe, data):
    lines = recipe.read_text(encoding="utf-8").splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    key, equals, _ = lines[number].partition(" = ")
    # A value, a whole line, or some of one.
    before = data.draw(st.sampled_from([key + equals, "", lines[number][: len(lines[number]) // 2]]))
    lines[number] = before + data.draw(_VALUES)
    path = recipe.with_name("edited.toml")
    path.write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")
    with suppress(RecipeError):
        assert load_recipe(path).plans


@given(words=st.lists(st.one_of(_VALUES, st.builds("{}={}".format, _KEYS, _VALUES)), max_size=3))
@settings(max_examples=100)
def test_any_override_is_read_or_refused(recipe, words):
    with suppress(RecipeError):
        assert load_recipe(recipe, words).plans


def _written(rows: list[dict[str, str]], suffix: str) -> str:
    if suffix == ".jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    table = [list(rows[0]), *(list(row.values()) for row in rows)]
    if suffix == ".tsv":
        return "".join("\t".join(cells) + "\n" for cells in table)
    target = io.StringIO()
    csv.writer(target).writerows(table)
    return target.getvalue()
