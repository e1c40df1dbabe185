"""What requests may say, and what is said of those that are refused; in this process, without a network."""

import json

import numpy as np
import pytest
from tiny_models import sentences

from modenc import ModularEncoder

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("httpx", reason="Starlette's client needs it")

from starlette.testclient import TestClient

from modenc.serving.app import make_app

TEXTS = [sentences("en")[0], sentences("kk")[0], sentences("az")[0]]
FIELDS = "dimensions encoding_format user lang align normalize input_type"


@pytest.fixture(scope="module")
def encoder(tiny_hub):
    """One whose prompts differ."""
    return ModularEncoder(tiny_hub.path, prompts={"query": "question: ", "document": "a longer passage: "})


@pytest.fixture(scope="module")
def client(encoder):
    with TestClient(make_app(encoder, "tiny"), raise_server_exceptions=False) as client:
        yield client


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
        assert error["param"] == "input"
        assert error["message"].startswith("input: Field required")
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


@pytest.mark.parametrize("name", ["query", "document"])
def test_input_type_chooses_the_prompt(client, encoder, name):
    expected = encoder.encode(TEXTS, name, normalize_embeddings=True)
    assert_same(vectors(client, {"input_type": name}), expected)
    error = refusal(client, {"model": "tiny", "input": "a", "input_type": "image"})
    assert error["param"] == "input_type"
    assert "'query' or 'document'" in error["message"]


@pytest.mark.parametrize("name", ["dimension", "inputs"])
def test_other_fields_are_refused(client, name):
    for path, body in (
        ("/v1/embeddings", {"model": "tiny", "input": "a", name: 5}),
        ("/api/similarities", {"texts": "a", name: 5}),
    ):
        error = refusal(client, body, path)
        assert error["param"] == name
        assert "Extra inputs are not permitted; /openapi.json has all fields" in error["message"]


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


@pytest.mark.parametrize("value", [[1, 2], [[1, 2], [3]], [["a", "b"]], [None], {"text": "a"}])
def test_an_input_of_another_kind_is_refused(client, value):
    message = refusal(client, {"model": "tiny", "input": value})["message"]
    assert message.startswith("input: expected a text or a list of texts, found something else; token")


@pytest.mark.parametrize("count", [0, 2049])
def test_a_request_has_texts_and_not_too_many(client, count):
    assert refusal(client, {"model": "tiny", "input": ["a"] * count})["param"] == "input"


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON;charset=UTF-8"])
def test_types_of_content_that_are_read(client, content_type):
    body = json.dumps({"model": "tiny", "input": TEXTS}, ensure_ascii=False).encode()
    headers = {"Content-Type": content_type, "Accept": "text/event-stream"}
    assert client.post("/v1/embeddings", content=body, headers=headers).status_code == 200


def test_a_body_that_is_no_json_is_refused(client):
    for body in (b"\xff", b'{"input": "a", ', b"[]", b"[" * 100_000):
        answer = client.post("/v1/embeddings", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"


def test_lone_surrogates_are_answered(client):
    headers = {"Content-Type": "application/json"}
    for body in (rb'{"model": "\ud83d", "input": "a"}', rb'{"model": "tiny", "input": "a", "\ud83d": 1}'):
        answer = client.post("/v1/embeddings", content=body, headers=headers)
        assert answer.status_code in (400, 404)
    body = rb'{"model": "tiny", "input": "a\ud83d"}'
    assert client.post("/v1/embeddings", content=body, headers=headers).status_code == 200


def test_an_internal_error_is_said(client, encoder, monkeypatch):
    monkeypatch.setattr(encoder, "encode", None)
    answer = client.post("/v1/embeddings", json={"model": "tiny", "input": "a"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "server_error")
