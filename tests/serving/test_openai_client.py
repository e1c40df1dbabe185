"""The server as OpenAI's own client sees it."""

import base64
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tiny_models import sentences

from modenc import ModularEncoder

openai = pytest.importorskip("openai", reason="the client is not installed")
pytest.importorskip("fastapi", reason="the extra serve is not installed")

pytestmark = pytest.mark.slow
TEXTS = [sentences(lang)[row] for row in range(3) for lang in ("en", "kk", "az")]


@pytest.fixture(scope="module")
def encoder(tiny_hub):
    return ModularEncoder(tiny_hub.path)


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="second-key", max_retries=0, timeout=120)


def vectors(answer):
    assert [row.index for row in answer.data] == list(range(len(answer.data)))
    return np.array([row.embedding for row in answer.data], dtype=np.float32)


def test_vectors_are_the_encoders(client, encoder):
    answer = client.embeddings.create(model="tiny", input=TEXTS, user="someone")
    np.testing.assert_allclose(
        vectors(answer), encoder.encode(TEXTS, normalize_embeddings=True), atol=1e-5, rtol=0
    )
    assert [row.language for row in answer.data] == [text.lang for text in encoder.route(TEXTS)]
    tokens = sum(len(ids) for ids in encoder.preprocess(TEXTS, prompt="query: ")["attention_mask"].tolist())
    assert 0 < answer.usage.prompt_tokens == answer.usage.total_tokens <= tokens
    assert answer.model == "tiny"


def test_base64_floats_and_raw_lengths(client, encoder):
    expected = encoder.encode(TEXTS[:2])
    raw = {"model": "tiny", "input": TEXTS[:2], "extra_body": {"normalize": False}}
    floats = client.embeddings.create(**raw, encoding_format="float")
    assert isinstance(floats.data[0].embedding[0], float)
    np.testing.assert_allclose(vectors(floats), expected, atol=1e-5, rtol=0)
    encoded = client.embeddings.create(**raw, encoding_format="base64")
    found = [np.frombuffer(base64.b64decode(row.embedding), "<f4") for row in encoded.data]
    assert np.array_equal(found, vectors(floats))


def test_dimensions_are_the_first_ones_at_length_1(client, encoder):
    found = vectors(client.embeddings.create(model="tiny", input=TEXTS[0], dimensions=7))
    expected = encoder.encode([TEXTS[0]], truncate_dim=7, normalize_embeddings=True)
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
    with pytest.raises(openai.BadRequestError, match="dimensions: expected 1 to 32, found 33"):
        client.embeddings.create(model="tiny", input="a", dimensions=33)


@pytest.mark.filterwarnings("ignore:text . is given as")
@pytest.mark.parametrize("lang", ["kaz_Cyrl", ["kk", None, "base", "az", None, "kk", "kk", "en", "base"]])
@pytest.mark.parametrize("align", [True, False])
def test_lang_and_align(client, encoder, lang, align):
    answer = client.embeddings.create(
        model="tiny", input=TEXTS, extra_body={"lang": lang, "align": align, "normalize": False}
    )
    expected = encoder.encode(TEXTS, lang=lang, align=align)
    np.testing.assert_allclose(vectors(answer), expected, atol=1e-5, rtol=0)


def test_every_answer_of_many_clients_is_right(client, server, encoder):
    """Requests of many sizes, with alignment and without, share batches."""
    pool = [text for lang in ("en", "kk", "az") for text in sentences(lang)[:40]]
    rng = np.random.default_rng(0)
    asked = [([pool[row] for row in rng.integers(len(pool), size=rng.integers(1, 90))], n) for n in range(60)]

    def ask(request):
        texts, number = request
        extra = {"align": number % 2 == 0, "normalize": False}
        return vectors(client.embeddings.create(model="tiny", input=texts, extra_body=extra))

    before = server.metric("modenc_batch_texts_count"), server.metric("modenc_batch_texts_sum")
    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(ask, asked))
    known = {
        align: dict(zip(pool, encoder.encode(pool, align=align), strict=True)) for align in (True, False)
    }
    for (texts, number), found in zip(asked, answers, strict=True):
        expected = np.array([known[number % 2 == 0][text] for text in texts])
        np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
    batches = server.metric("modenc_batch_texts_count") - before[0]
    encoded = server.metric("modenc_batch_texts_sum") - before[1]
    assert encoded == sum(len(texts) for texts, _ in asked)
    assert encoded / batches > 45.5, "batches are formed across requests"


def test_models(client):
    (model,) = client.models.list().data
    assert (model.id, model.languages, model.dimensions) == ("tiny", ["en", "az", "kk"], 32)
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError, match="expected 'tiny', found 'gpt-4'") as refused:
        client.embeddings.create(model="gpt-4", input="a")
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"input": "a", "dimensions": 0}, "dimensions: Input should be greater than or equal to 1"),
        ({"input": "a", "extra_body": {"lang": "kazakhish"}}, "lang: expected a language code .*'kazakhish'"),
        ({"input": "a", "extra_body": {"lang": ["kk", "kk"]}}, "lang: .*2"),
        ({"input": "a", "extra_body": {"lang": 5}}, "lang"),
    ],
)
def test_bad_requests_say_what_is_wrong(client, request_, message):
    with pytest.raises(openai.BadRequestError, match=message) as refused:
        client.embeddings.create(model="tiny", **request_)
    assert refused.value.type == "invalid_request_error"
    assert refused.value.param is not None
