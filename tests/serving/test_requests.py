"""What requests may say, and what is said of those that are refused; in this process, without a network."""

import gzip
import json
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from slow_hub import hold_reading
from tiny_models import sentences

from modenc import ModularEncoder
from modenc.errors import OptionError

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("httpx", reason="Starlette's client needs it")

from starlette.testclient import TestClient

from modenc.serving.app import make_app
from modenc.serving.batcher import Batcher
from modenc.serving.metrics import Metrics
from modenc.serving.settings import ServeSettings, key_digests

TEXTS = [sentences("en")[0], sentences("kk")[0], sentences("az")[0]]
ORIGIN = "https://app.example.org"
FIELDS = "dimensions encoding_format user lang align normalize input_type task metadata"


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
    """With a key, and an origin whose scripts may use it."""
    yield from clients(
        encoder, key_digests=key_digests("a-key"), cors_origins=(ORIGIN, "http://localhost:3000")
    )


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


@pytest.mark.parametrize("name", FIELDS.split())
def test_null_means_not_given(client, name):
    assert_same(vectors(client, {name: None}), vectors(client, {}))


def test_null_means_not_given_for_all_fields_at_once(client):
    assert_same(vectors(client, dict.fromkeys((*FIELDS.split(), "dimension", "langs"))), vectors(client, {}))
    found = client.post(
        "/api/similarities", json={"texts": TEXTS, "lang": None, "align": None, "model": None}
    )
    assert found.status_code == 200


def test_null_for_a_required_field_says_so(client):
    for body in ({"model": "tiny", "input": None}, {"model": "tiny"}):
        error = refusal(client, body)
        assert (error["param"], error["message"]) == ("input", "input: expected a value, found null or none")
    assert refusal(client, {"model": None, "input": "a"})["param"] == "model"
    assert refusal(client, {"texts": None}, "/api/similarities")["param"] == "texts"


@pytest.mark.parametrize(
    "code", [None, "und", "UND", "mul", "mis", "zxx", "und-Latn", "und_Cyrl", " und ", ""]
)
def test_codes_of_no_language_mean_that_it_is_identified(client, encoder, code):
    expected = encoder.encode(TEXTS, normalize_embeddings=True)
    assert_same(vectors(client, {"lang": code}), expected)
    assert_same(vectors(client, {"lang": [code, "kk", None]}), expected)


@pytest.mark.parametrize("code", ["undetermined", "unknown", "mulatto", "zxxx", "auto"])
def test_other_words_are_no_codes(client, code):
    error = refusal(client, {"model": "tiny", "input": "a", "lang": code})
    assert (error["param"], error["message"][:6]) == ("lang", "lang: ")


@pytest.mark.parametrize(
    ("values", "prompt_name"),
    [
        (
            ["query", "search_query", "retrieval.query", "RETRIEVAL_QUERY", "Query", " SEARCH_QUERY\n"],
            "query",
        ),
        (["QUESTION_ANSWERING", "FACT_VERIFICATION"], "query"),
        (["document", "passage ", "search_document", "retrieval.passage", "RETRIEVAL_DOCUMENT"], "document"),
        (["classification", "CLUSTERING", "separation", "text-matching", "SEMANTIC_SIMILARITY"], None),
        (["", "  ", None], None),
    ],
)
def test_input_type_chooses_the_prompt(client, encoder, values, prompt_name):
    expected = encoder.encode(TEXTS, prompt_name, normalize_embeddings=True)
    for value in values:
        for name in ("input_type", "task"):
            assert_same(vectors(client, {name: value}), expected)


def test_the_prompts_of_the_tests_differ(encoder):
    found = [encoder.encode(TEXTS[:1], name) for name in (None, "query", "document")]
    assert min(abs(found[a] - found[b]).max() for a, b in ((0, 1), (0, 2), (1, 2))) > 1e-3


@pytest.mark.parametrize("value", ["image", "code.query", ".", "search", 1, ["query"], {}, True])
@pytest.mark.parametrize("name", ["input_type", "task"])
def test_other_input_types_are_refused_with_what_is_accepted(client, name, value):
    error = refusal(client, {"model": "tiny", "input": "a", name: value})
    assert error["param"] == name
    assert error["message"].startswith(f"{name}: expected null or one of query, search_query, ")
    assert "passage" in error["message"]


OTHER_TASKS = [("query", "document"), ("query", "classification"), ("passage", "RETRIEVAL_QUERY")]


@pytest.mark.parametrize(("input_type", "task"), [*OTHER_TASKS, ("query", ["query"])])
def test_two_fields_that_choose_other_prompts_are_refused(client, input_type, task):
    error = refusal(client, {"model": "tiny", "input": "a", "input_type": input_type, "task": task})
    assert error["param"] == "task"
    assert error["message"].startswith(
        f"task: expected what input_type says ({input_type!r}), found {task!r}"
    )


def test_two_fields_that_choose_the_same_prompt_are_taken(client, encoder):
    expected = encoder.encode(TEXTS, "query", normalize_embeddings=True)
    for input_type, task in (("query", "retrieval.query"), ("Query ", ""), (" ", "query"), (None, "query")):
        assert_same(vectors(client, {"input_type": input_type, "task": task}), expected)


@pytest.mark.parametrize("name", ["embedding_types", "embedding_type", "output_dtype"])
def test_kinds_of_numbers_that_other_servers_have(client, name):
    for value in (["float"], "float", "FLOAT", ["Float "], "float32", []):
        assert_same(vectors(client, {name: value}), vectors(client, {}))
    answer = client.post(
        "/v1/embeddings",
        json={"model": "tiny", "input": "a", name: "float", "encoding_format": "base64"},
    )
    assert isinstance(answer.json()["data"][0]["embedding"], str), "Voyage has both"
    for value in (["int8"], ["float", "int8"], "ubinary", ["base64"], [["float"]], {}, 5):
        error = refusal(client, {"model": "tiny", "input": "a", name: value})
        assert error["param"] == name
        assert error["message"] == (
            f"{name}: expected float, found {value!r}; for base64, set encoding_format instead"
        )


OTHERS = """
line lines range long land lane link angle plan mask mode type local format encoding output
output_type output_format text title sort text_type input_ids model_id models model_version task_id
language_model mission dimmer sign alias alignment_id signal template user tags metadata
embedding_id timeout truncate truncation priority stream modality time
"""


@pytest.mark.parametrize("name", OTHERS.split())
def test_names_that_are_only_somewhat_like_a_field_are_ignored(client, name):
    assert client.post("/v1/embeddings", json={"model": "tiny", "input": "a", name: 5}).status_code == 200
    answer = client.post("/api/similarities", json={"texts": ["a"], name: 5})
    assert answer.status_code == 200, answer.text


def test_fields_of_other_servers_are_ignored(client):
    others = {"user": 5, "metadata": {"dimensions": 2}, "priority": 0, "truncate": "END", "tags": ["a"]}
    others |= {"stream": False, "model_name": "other", "inputs": ["x"], "": 1, "\ud800": 1, "a" * 5000: 1}
    body = json.dumps({"model": "tiny", "input": TEXTS, **others})
    answer = client.post("/v1/embeddings", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    assert_same([row["embedding"] for row in answer.json()["data"]], vectors(client, {}))


MEANT = {
    "dimensions": "dimension Dimensions dims output_dimension dimentions truncate_dim outputDimensionality",
    "lang": "language langs languages lang_code language_code languge langg source-lang",
    "normalize": "normalise normalized normalize_embeddings normalization normlize Normalize",
    "encoding_format": "encodingFormat encoding_fromat",
    "input_type": "inputType input-type task_type taskType prompt_name promt_name promptName instructions",
    "align": "aling allign algin Align",
    "the fields in it": "extra_body",
}


@pytest.mark.parametrize(("name", "meant"), [(w, meant) for meant in MEANT for w in MEANT[meant].split()])
def test_a_misspelled_field_is_refused_with_the_one_meant(client, name, meant):
    for path, texts in (("/v1/embeddings", "input"), ("/api/similarities", "texts")):
        error = refusal(client, {"model": "tiny", texts: "a", name: "x"}, path)
        assert error["param"] == name
        assert error["message"].startswith(f"{name}: unknown field; did you mean {meant}")


def test_similarities_have_the_fields_of_embeddings(client, encoder):
    others = {"model": "tiny", "user": "a", "metadata": {}, "embedding_types": ["float"], "normalize": False}
    chosen = {"task": "query", "dimensions": 5, "align": False, "lang": ["en", "kk", "az"]}
    answer = client.post("/api/similarities", json={"texts": TEXTS, **others, **chosen})
    assert answer.status_code == 200, answer.text
    expected = vectors(client, chosen)
    assert_same(np.array(answer.json()["similarities"]), (expected @ expected.T).round(4))
    for body, param in (
        ({"dimensions": 5000}, "dimensions"),
        ({"input_type": "image"}, "input_type"),
        ({"embedding_types": ["int8"]}, "embedding_types"),
        ({"encoding_format": "hex"}, "encoding_format"),
        ({"input_type": "query", "task": "passage"}, "task"),
    ):
        assert refusal(client, {"texts": TEXTS, **body}, "/api/similarities")["param"] == param


def test_a_misspelled_input_is_refused_with_the_name_of_it(client):
    assert "did you mean input?" in refusal(client, {"model": "tiny", "inputs": "a"})["message"]
    assert "did you mean texts?" in refusal(client, {"text": "a"}, "/api/similarities")["message"]
    assert refusal(client, {"input": "a"}, "/api/similarities")["param"] == "texts"


def test_names_that_are_no_unicode_are_refused_too(client):
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/embeddings", content='{"dimension\\ud800": 5}', headers=headers)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "dimension\\ud800")
    answer = client.post("/api/similarities", content='{"texts": ["a"], "lang\\ud800": 1}', headers=headers)
    assert answer.status_code == 400


def test_a_body_of_very_many_fields_is_refused_at_once(client):
    """Each name would be compared with all known ones."""
    for path in ("/v1/embeddings", "/api/similarities"):
        message = refusal(client, {f"dimensio{n}": 1 for n in range(100_000)}, path)["message"]
        assert message == "body: expected at most 100 fields, found 100000"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "found token numbers"),
        ([[1, 2], [3]], "found token numbers"),
        ([["a", "b"]], r"expected a text or a list of texts, found ['a', 'b']"),
        ([[]], "expected a text or a list of texts, found []"),
        ([True], "expected a text or a list of texts, found True"),
        ([None], "expected a text or a list of texts, found null"),
        (5, "expected a text or a list of texts, found 5"),
        ({"text": "a"}, "expected a text or a list of texts, found {'text': 'a'}"),
    ],
)
def test_an_input_of_another_kind_is_named(client, value, message):
    assert message in refusal(client, {"model": "tiny", "input": value})["message"]


def test_no_texts_are_not_told_to_send_fewer(client):
    message = refusal(client, {"model": "tiny", "input": []})["message"]
    assert message == "input: expected 1 to 2048 texts, found 0"


def test_empty_texts_have_the_encoders_vectors(client, encoder):
    texts = ["", "   ", "\u200b", TEXTS[0]]
    assert_same(vectors(client, {}, texts), encoder.encode(texts, normalize_embeddings=True))


@pytest.mark.parametrize("name", ["float", "FLOAT", "base64", "Base64"])
def test_the_case_of_encoding_format_does_not_matter(client, name):
    answer = client.post("/v1/embeddings", json={"model": "tiny", "input": "a", "encoding_format": name})
    found = answer.json()["data"][0]["embedding"]
    assert isinstance(found, str) == (name.lower() == "base64")


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


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "application/json"}])
@pytest.mark.parametrize("path", ["/v1/embeddings", "/api/similarities"])
def test_a_compressed_body_without_its_header_is_named(client, path, headers):
    body = json.dumps({"model": "tiny", "input": "a"}).encode()
    zstd = bytes.fromhex("28b52ffd")
    for data in (gzip.compress(body), *(zlib.compress(body, level) for level in (0, 2, 6, 9)), zstd + body):
        answer = client.post(path, content=data, headers=headers)
        assert answer.status_code == 415
        assert answer.json()["error"]["message"] == (
            f"body: expected JSON, found compressed bytes ({data[:2].hex(' ')} ...); send it uncompressed"
        )


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


def preflight(client, origin, method="POST", path="/v1/embeddings"):
    return client.options(
        path,
        headers={
            "Origin": origin,
            "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang",
        },
    )


def test_browsers_may_ask_without_a_key_and_use_the_server_with_it(guarded):
    asked = preflight(guarded, ORIGIN)
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == ORIGIN
    allowed = asked.headers["access-control-allow-headers"].lower()
    assert all(name in allowed for name in ("authorization", "content-type", "x-stainless-lang"))
    body = {"model": "tiny", "input": "a"}
    for key, status in (("a-key", 200), ("another", 401)):
        headers = {"Origin": ORIGIN, "Authorization": f"Bearer {key}"}
        answer = guarded.post("/v1/embeddings", json=body, headers=headers)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, ORIGIN)
        assert "Retry-After" in answer.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in answer.headers


def test_errors_can_be_read_by_scripts_too(guarded, encoder, monkeypatch):
    def failing(*_, **__):
        raise RuntimeError("broken")

    monkeypatch.setattr(encoder, "route", failing)
    headers = {"Origin": ORIGIN, "Authorization": "Bearer a-key"}
    guarded = TestClient(guarded.app, raise_server_exceptions=False)
    answer = guarded.post("/v1/embeddings", json={"model": "tiny", "input": "a"}, headers=headers)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (500, ORIGIN)


@pytest.mark.parametrize(
    "origin",
    ["https://example.org", "http://app.example.org", f"{ORIGIN}:8443", f"{ORIGIN}.evil.net", "null"],
)
def test_other_origins_are_not_allowed(guarded, origin):
    assert preflight(guarded, origin).status_code == 400
    answer = guarded.get("/health", headers={"Origin": origin})
    assert "access-control-allow-origin" not in answer.headers


def test_without_the_option_no_origin_is_allowed(client):
    assert preflight(client, ORIGIN).status_code == 405
    assert "access-control-allow-origin" not in client.get("/health", headers={"Origin": ORIGIN}).headers


def test_all_origins_may_be_allowed(encoder):
    for client in clients(encoder, cors_origins=("*",)):
        for origin in (ORIGIN, "null"):
            assert preflight(client, origin).headers["access-control-allow-origin"] == "*"
            answer = client.get("/health", headers={"Origin": origin})
            assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    "origin", [ORIGIN, "http://localhost:3000", "http://[::1]:80801", "tauri://localhost", "*"]
)
def test_origins_as_browsers_send_them(origin):
    assert ServeSettings("tiny", cors_origins=(origin,)).cors_origins == (origin,)


@pytest.mark.parametrize(
    "origin",
    [
        *("app.example.org", f"{ORIGIN}/", f"{ORIGIN}/page", "https://App.example.org", "", "null"),
        *("https://", "https://*.example.org", f"{ORIGIN}:443", "http://localhost:80", f"{ORIGIN},{ORIGIN}"),
    ],
)
def test_an_origin_that_no_browser_sends_is_refused(origin):
    with pytest.raises(OptionError, match="--cors-origin: expected \\* or an origin as browsers send it"):
        ServeSettings("tiny", cors_origins=(origin,))


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
