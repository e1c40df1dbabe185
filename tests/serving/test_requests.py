"""What requests may say, and what is said of those that are refused; in this process, without a network."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from slow_hub import hold_reading
from tiny_models import sentences

from modenc import ModularEncoder

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("httpx", reason="Starlette's client needs it")

from starlette.testclient import TestClient

from modenc.serving.app import make_app
from modenc.serving.batcher import Batcher
from modenc.serving.metrics import Metrics
from modenc.serving.settings import ServeSettings, key_digests

TEXTS = [sentences("en")[0], sentences("kk")[0], sentences("az")[0]]
FIELDS = "dimensions encoding_format user lang align normalize input_type"


@pytest.fixture(scope="module")
def encoder(tiny_hub):
    """One whose prompts differ."""
    return ModularEncoder(tiny_hub.path, prompts={"query": "question: ", "document": "a longer passage: "})


def clients(encoder, **settings):
    settings = ServeSettings("tiny", window=0.0, **settings)
    metrics = Metrics()
    batcher = Batcher(lambda: encoder, settings, metrics)
    with TestClient(make_app(batcher, settings, metrics)) as client:
        while not batcher.ready:
            pass
        yield client


@pytest.fixture(scope="module")
def client(encoder):
    yield from clients(encoder)


@pytest.fixture(scope="module")
def guarded(encoder):
    yield from clients(encoder, key_digests=key_digests("a-key"))


def vectors(client, fields, texts=TEXTS):
    answer = client.post("/v1/embeddings", json={"model": "tiny", "input": texts, **fields})
    assert answer.status_code == 200, answer.text
    return np.array([row["embedding"] for row in answer.json()["data"]], dtype=np.float32)


def refusal(client, body, path="/v1/embeddings"):
    answer = client.post(path, json=body)
    assert answer.status_code == 400, answer.text
    return answer.json()["error"]


def assert_same(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


def test_null_means_not_given(client):
    assert_same(vectors(client, dict.fromkeys(FIELDS.split())), vectors(client, {}))


def test_null_for_a_required_field_says_so(client):
    for body in ({"model": "tiny", "input": None}, {"model": "tiny"}):
        error = refusal(client, body)
        assert (error["param"], error["message"]) == ("input", "input: expected a value, found null or none")
    assert refusal(client, {"model": None, "input": "a"})["param"] == "model"
    assert refusal(client, {"texts": None}, "/api/similarities")["param"] == "texts"


@pytest.mark.parametrize("code", [None, "UND", "zxx", "und_Cyrl", " und ", ""])
def test_codes_of_no_language_mean_that_it_is_identified(client, encoder, code):
    expected = encoder.encode(TEXTS, normalize_embeddings=True)
    assert_same(vectors(client, {"lang": code}), expected)
    assert_same(vectors(client, {"lang": [code, "kk", None]}), expected)


@pytest.mark.parametrize("code", ["unknown", "zxxx", "auto"])
def test_other_words_are_no_codes(client, code):
    error = refusal(client, {"model": "tiny", "input": "a", "lang": code})
    assert (error["param"], error["message"][:6]) == ("lang", "lang: ")


@pytest.mark.parametrize(
    ("value", "prompt_name"), [("search_query", "query"), ("passage", "document"), ("clustering", None)]
)
def test_input_type_chooses_the_prompt(client, encoder, value, prompt_name):
    expected = encoder.encode(TEXTS, prompt_name, normalize_embeddings=True)
    assert_same(vectors(client, {"input_type": value}), expected)


@pytest.mark.parametrize("value", ["image", "", 1, ["query"], {}, True])
def test_other_input_types_are_refused_with_what_is_accepted(client, value):
    error = refusal(client, {"model": "tiny", "input": "a", "input_type": value})
    assert error["param"] == "input_type"
    assert error["message"].startswith("input_type: expected null or one of query, search_query, document, ")


@pytest.mark.parametrize("name", ["dimension", "inputs"])
def test_other_fields_are_refused(client, name):
    for path, body in (
        ("/v1/embeddings", {"model": "tiny", "input": "a", name: 5}),
        ("/api/similarities", {"texts": "a", name: 5}),
    ):
        error = refusal(client, body, path)
        assert error["param"] == name
        assert error["message"].startswith(f"{name}: unknown field; /openapi.json lists all")


def test_similarities_have_the_fields_of_embeddings(client, encoder):
    others = {"user": "a", "normalize": False}
    chosen = {"input_type": "query", "dimensions": 5, "align": False, "lang": ["en", "kk", "az"]}
    answer = client.post("/api/similarities", json={"texts": TEXTS, **others, **chosen})
    assert answer.status_code == 200, answer.text
    expected = vectors(client, chosen)
    assert_same(np.array(answer.json()["similarities"]), (expected @ expected.T).round(4))
    identified = client.post("/api/similarities", json={"texts": [*TEXTS, "12"]}).json()["languages"]
    assert [row["name"] for row in identified] == ["English", "Kazakh", "Azerbaijani", "unknown"]
    assert [row["modules"] for row in identified[:3]] == ["en", "kk", "az"]
    for body, param in (
        ({"dimensions": 5000}, "dimensions"),
        ({"input_type": "image"}, "input_type"),
        ({"encoding_format": "hex"}, "encoding_format"),
        ({"texts": ["a"] * 101}, "texts"),
    ):
        assert refusal(client, {"texts": TEXTS, **body}, "/api/similarities")["param"] == param


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "found token numbers; languages have tokenizers of their own: send the text"),
        ([[1, 2], [3]], "found token numbers"),
        ([["a", "b"]], r"expected a text or a list of texts, found ['a', 'b']"),
        ([None], "expected a text or a list of texts, found null"),
        ({"text": "a"}, "expected a text or a list of texts, found {'text': 'a'}"),
    ],
)
def test_an_input_of_another_kind_is_named(client, value, message):
    assert message in refusal(client, {"model": "tiny", "input": value})["message"]


def test_no_texts_are_not_told_to_send_fewer(client):
    message = refusal(client, {"model": "tiny", "input": []})["message"]
    assert message == "input: expected 1 to 2048 texts, found 0"


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON;charset=UTF-8"])
def test_types_of_content_that_are_read(client, content_type):
    body = json.dumps({"model": "tiny", "input": TEXTS}, ensure_ascii=False).encode()
    headers = {"Content-Type": content_type, "Accept": "text/event-stream"}
    assert client.post("/v1/embeddings", content=body, headers=headers).status_code == 200


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}, {"Content-Type": ""}])
def test_without_a_type_of_content_the_header_is_named(client, headers):
    """Browsers send such requests to other sites without asking."""
    answer = client.post("/v1/embeddings", content=b'{"model": "tiny", "input": "a"}', headers=headers)
    assert answer.status_code == 400
    assert "is the header 'Content-Type: application/json' there?" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "body", ['{"model": "tiny", "input": "Қайырлы таң"}'.encode("cp1251", "replace"), b"\xff"]
)
def test_a_body_in_another_encoding_is_named(client, body):
    answer = client.post("/v1/embeddings", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert "expected JSON in UTF-8" in answer.json()["error"]["message"]


def test_a_slash_at_the_end_changes_nothing(guarded):
    key = {"Authorization": "Bearer a-key"}
    body = {"model": "tiny", "input": "a"}
    answer = guarded.post("/v1/embeddings/", json=body, headers=key, follow_redirects=False)
    assert answer.status_code == 200
    assert guarded.get("/v1/models/", headers=key).json() == guarded.get("/v1/models", headers=key).json()
    assert guarded.get("/health/", follow_redirects=False).status_code == 200
    for path in ("/v1/models/", "/v1/models//", "/v1/embeddings/"):
        assert guarded.get(path).status_code == 401


def test_a_language_that_is_being_read_holds_up_no_other_requests(tiny_hub, monkeypatch):
    encoder = ModularEncoder(tiny_hub.path)
    encoder.load("en")
    begun, go_on = hold_reading(monkeypatch, encoder.hub, "kk")
    client = next(started := clients(encoder))
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(vectors, client, {"lang": "kk"}, TEXTS[1:2])
        assert begun.wait(60)
        quick = vectors(client, {"lang": "en"}, TEXTS[:1])
        assert not slow.done()
        go_on.set()
        assert_same(
            np.concatenate([quick, slow.result(60)]), vectors(client, {"lang": ["en", "kk"]}, TEXTS[:2])
        )
    started.close()
