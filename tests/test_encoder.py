import json
import pickle
import shutil
import subprocess
import sys
import time
import unicodedata
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import sentence_transformers
import torch
from sentence_transformers import SentenceTransformer
from tiny_languages import TINY, make_card, normal, write_lora
from tiny_models import HIDDEN, sentences
from transformers import AutoModel, AutoTokenizer

from modenc import ModularEncoder
from modenc.composition import st_module
from modenc.composition.st_module import tokenize
from modenc.errors import (
    BaseModelError,
    HubError,
    LanguageError,
    OptionError,
    TextError,
    TextsCutWarning,
)
from modenc.hub.store import Hub
from modenc.langid import LanguageIdentifier
from modenc.texts import TaggedText

TEXTS = [
    "The teacher reads a new book.",
    "Мұғалім жаңа кітапты оқиды.",
    "Müəllim təzə çörəyi kitabxanada hər səhər oxuyur.",
    "Қарт диқан бүгін үйде қызыл алманы табады.",
    "A small child.",
    "Qonşumuz qırmızı almanı alır.",
]
CODES = ["en", "kk", "az", "kk", "en", "az"]
# From 6.0 on, classes of other packages need the caller's consent.
CONSENT = {"trust_remote_code": True} if int(sentence_transformers.__version__.split(".")[0]) > 5 else {}


class ByLetters(LanguageIdentifier):
    """Cyrillic is Kazakh, ``ə`` Azerbaijani, other letters English; counts the calls."""

    def __init__(self):
        super().__init__("letters", ["az", "en", "kk"])
        self.calls = 0

    def _probabilities(self, texts):
        self.calls += 1
        return np.array(
            [[0.9 if self._code(text) == code else 0.05 for code in self._known] for text in texts]
        )

    def _code(self, text):
        if any("а" <= letter <= "я" for letter in text.lower()):
            return "kk"
        return "az" if "ə" in text or "ı" in text else "en"


@pytest.fixture(scope="module")
def encoder(tiny_hub):
    return ModularEncoder(tiny_hub.path, identifier=ByLetters())


@pytest.fixture
def fresh(tiny_hub):
    def make(**options):
        return ModularEncoder(tiny_hub.path, **{"identifier": ByLetters(), **options})

    return make


def near(left, right):
    return np.abs(np.asarray(left) - np.asarray(right)).max() <= 1e-5


def test_identification_is_one_call_a_language_list_none(fresh):
    identifier = ByLetters()
    encoder = fresh(identifier=identifier)
    identified = encoder.encode(TEXTS * 3, batch_size=2)
    assert identifier.calls == 1
    assert near(identified[:6], encoder.encode(TEXTS, lang=CODES))
    assert identifier.calls == 1


def test_languages_load_on_first_use(fresh):
    encoder = fresh()
    assert (encoder.languages, encoder.loaded) == (["en", "az", "kk"], [])
    encoder.encode(TEXTS[1])
    assert encoder.loaded == ["kk"]
    encoder.load(["en", "aze"])
    assert encoder.loaded == ["az", "en", "kk"]


def test_batch_and_order_change_nothing(encoder):
    whole = encoder.encode(TEXTS)
    assert near(encoder.encode(TEXTS[::-1], batch_size=4)[::-1], whole)
    assert near([encoder.encode(text) for text in TEXTS], whole)
    long = ["a small child reads " * 20, *TEXTS, "күн сайын " * 30]
    assert near(encoder.encode(long)[1:-1], whole)


def test_a_list_of_codes_travels_with_its_texts(encoder):
    codes = ["kk", "base", "en", "az", "kk", "en"]
    by_language = {code: encoder.encode(TEXTS, lang=code) for code in ("en", "kk", "az", "base")}
    mixed = encoder.encode(TEXTS, lang=codes, batch_size=4)
    assert near(mixed, [by_language[code][row] for row, code in enumerate(codes)])
    assert not near(by_language["en"], by_language["base"])


def test_base_is_the_base_alone(encoder, tiny_xlmr):
    tokenizer, body = AutoTokenizer.from_pretrained(tiny_xlmr), AutoModel.from_pretrained(tiny_xlmr)
    batch = tokenizer(["query: " + text for text in TEXTS], padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = body(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    assert near(encoder.encode(TEXTS, lang="base"), (hidden * mask).sum(1) / mask.sum(1))


def test_align_switches_the_alignment_adapter(encoder):
    aligned, plain = encoder.encode(TEXTS), encoder.encode(TEXTS, align=False)
    differ = np.abs(aligned - plain).max(axis=1) > 1e-4
    assert differ.tolist() == [code != "en" for code in CODES]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_sentence_transformers_opens_the_folder(encoder, tiny_hub):
    plain = SentenceTransformer(str(tiny_hub.path), model_kwargs={"identifier": ByLetters()}, **CONSENT)
    assert near(plain.encode(TEXTS), encoder.encode(TEXTS))
    tagged = [TaggedText(text, "kk") for text in TEXTS]
    assert near(plain.encode(tagged, align=False), encoder.encode(TEXTS, lang="kk", align=False))
    with pytest.raises(ValueError, match="lang"):
        plain.encode(TEXTS, lang="kk")
    with pytest.raises(TextError, match="expected a str, found NoneType"):
        plain.encode(["a", None])
    with pytest.raises(OptionError, match="backend: expected 'torch', found 'onnx'; export"):
        SentenceTransformer(str(tiny_hub.path), backend="onnx", **CONSENT)


def test_options_of_encode_keep_their_meaning(encoder):
    whole = encoder.encode(TEXTS)
    unit = encoder.encode(TEXTS, normalize_embeddings=True)
    assert near(unit, whole / np.linalg.norm(whole, axis=1, keepdims=True))
    assert encoder.similarity(whole, whole).diagonal().allclose(torch.ones(6))
    assert near(encoder.encode(TEXTS, truncate_dim=8), whole[:, :8])
    assert near(encoder.encode(TEXTS, convert_to_tensor=True).numpy(), whole)
    listed = encoder.encode(TEXTS, convert_to_numpy=False)
    assert isinstance(listed, list)
    assert near(torch.stack(listed), whole)
    assert encoder.encode(TEXTS, precision="ubinary").shape == (6, HIDDEN // 8)
    assert encoder.encode(TEXTS * 20, precision="int8").dtype == np.int8
    rows = encoder.encode(TEXTS, output_value=None)
    assert near(torch.stack([row["sentence_embedding"] for row in rows]), whole)
    tokens = encoder.encode(TEXTS, output_value="token_embeddings")
    assert near(torch.stack([row.mean(0) for row in tokens]), whole)
    assert near(encoder.encode(sentences=TEXTS), whole)
    assert encoder.encode(TEXTS[0]).shape == (HIDDEN,)
    assert encoder.encode([TEXTS[0]]).shape == (1, HIDDEN)
    with pytest.raises(ValueError, match="lagn"):
        encoder.encode(TEXTS, lagn="kk")


def test_prompts(encoder):
    whole = encoder.encode(TEXTS)
    assert near(encoder.encode(TEXTS, prompt_name="query"), whole)
    assert near(encoder.encode_query(TEXTS), whole)
    assert near(encoder.encode_document(TEXTS, lang=CODES), whole)
    bare = encoder.encode(TEXTS, prompt="")
    assert not near(bare, whole)
    assert near(encoder.encode(["query: " + text for text in TEXTS], prompt=""), whole)


def test_settings_of_the_encoder_reach_sentence_transformers(fresh):
    short = fresh(truncate_dim=8, similarity_fn_name="dot", prompts={"own": "passage: "})
    assert short.encode(TEXTS).shape == (6, 8)
    assert short.get_embedding_dimension() == 8
    assert short.similarity_fn_name == "dot"
    assert near(short.encode(TEXTS, prompt_name="own"), short.encode(TEXTS, prompt="passage: "))


def test_texts_are_cut_at_max_seq_length(fresh):
    encoder = fresh()
    text = " ".join(sentences("en"))
    assert encoder.max_seq_length == 128
    assert encoder.preprocess([text])["input_ids"].shape == (1, 128)
    encoder.max_seq_length = 16
    assert encoder.preprocess([text])["input_ids"].shape == (1, 16)
    with pytest.raises(OptionError, match="expected 1 to 128"):
        encoder.max_seq_length = 129


def test_other_processes_encode_the_same(encoder):
    copy = pickle.loads(pickle.dumps(encoder))
    assert near(copy.encode(TEXTS), encoder.encode(TEXTS))


@pytest.mark.slow
def test_pool(encoder):
    parallel = encoder.encode(TEXTS, lang=CODES, align=False, device=["cpu"], chunk_size=4)
    assert near(parallel, encoder.encode(TEXTS, lang=CODES, align=False))


FORKS = """
import json, sys
from multiprocessing import get_context
import numpy as np
from modenc import ModularEncoder

encoder, texts, fork = ModularEncoder(sys.argv[1]), json.loads(sys.argv[2]), get_context("fork")
queue = fork.Queue()
children = [fork.Process(target=lambda: queue.put(encoder.encode(texts))) for _ in range(2)]
for child in children:
    child.start()
found = [queue.get(timeout=100) for _ in children]
for child in children:
    child.join()
    assert child.exitcode == 0
assert all(np.abs(vectors - encoder.encode(texts)).max() < 1e-5 for vectors in found)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
def test_forks_before_the_first_encode_share_an_encoder(hub_copy):
    # In a process of its own: this one has threads.
    subprocess.run(
        [sys.executable, "-c", FORKS, str(hub_copy.path), json.dumps(TEXTS)], check=True, timeout=200
    )


def test_threads_share_an_encoder(fresh):
    encoder = fresh()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: encoder.encode(TEXTS, batch_size=2), range(8)))
    assert all(np.array_equal(result, results[0]) for result in results)


def test_moving_the_base_recomposes_the_bodies(fresh):
    encoder = fresh()
    before = encoder.encode(TEXTS)
    encoder.double()
    assert encoder.encode(TEXTS).dtype == np.float64
    encoder.float()
    assert near(encoder.encode(TEXTS), before)


def test_what_is_saved_is_a_whole_hub(fresh, tmp_path):
    encoder = fresh()
    encoder.max_seq_length = 5
    encoder.save(tmp_path / "saved")
    assert Hub.open(tmp_path / "saved").verify() == []
    again = ModularEncoder(tmp_path / "saved", identifier=ByLetters())
    assert again.max_seq_length == 5
    assert np.array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    with pytest.raises(HubError, match="another kind of hub"):
        fresh().save(tmp_path / "saved")
    with pytest.warns(UserWarning, match=r"one prompt: only '.*' is saved"):
        fresh(prompts={"search": "find: "}).save(tmp_path / "other")


def test_another_models_folder_is_not_saved_into(encoder, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "config_sentence_transformers.json").write_text("{}")
    with pytest.raises(HubError, match="expected a new or empty folder for a hub, found model"):
        encoder.save(str(tmp_path))
    assert (tmp_path / "config_sentence_transformers.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda encoder: encoder.encode(TEXTS, batch_size=0), "batch_size: expected 1 or more, found 0"),
        (lambda _: ModularEncoder(None), "expected a hub's folder, found None"),
        (lambda encoder: encoder.encode("a", lang=[5]), "expected a language code .*, found 5"),
        (lambda encoder: encoder.encode("a", lang="zzz_Zzzz"), "expected a language code"),
        (lambda encoder: encoder.encode(TEXTS, lang=["en", "kk"]), "each of the 6 texts, found 2 codes"),
    ],
)
def test_wrong_options_are_explained(encoder, act, message):
    with pytest.raises((OptionError, LanguageError, HubError), match=message):
        act(encoder)
    assert encoder.encode(TEXTS[0]).shape == (HIDDEN,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_confidence": 95}, "min_confidence: expected 0 to 1, found 95"),
        (
            {"backend": "onnx"},
            "backend: would have no effect; .*: prompts, default_prompt_name, truncate_dim",
        ),
        (
            {"device": "gpu"},
            r"device: expected one that PyTorch has here, such as 'cpu', found 'gpu' \(Expected",
        ),
    ],
)
def test_wrong_settings_are_explained(fresh, options, message):
    with pytest.raises((OptionError, BaseModelError), match=message):
        fresh(**options)


@pytest.mark.parametrize("texts", [TEXTS[:2], []])
def test_positional_options_are_those_of_sentence_transformers(encoder, texts):
    given = (False, "sentence_embedding", "float32", False, True, "cpu", True)
    named = encoder.encode(
        texts, batch_size=8, convert_to_tensor=True, device="cpu", normalize_embeddings=True
    )
    assert torch.equal(encoder.encode(texts, None, None, 8, *given), named)
    with pytest.raises(TypeError, match="multiple values for argument 'device'"):
        encoder.encode(texts, None, None, 8, *given, device="cpu")


def test_no_texts_have_vectors_of_the_usual_shape(encoder):
    empty = encoder.encode([])
    assert (empty.shape, empty.dtype) == ((0, HIDDEN), np.float32)
    assert encoder.encode([], convert_to_tensor=True).shape == (0, HIDDEN)
    assert encoder.encode([], truncate_dim=8).shape == (0, 8)
    assert encoder.encode([], convert_to_numpy=False) == []


def test_a_language_without_modules_warns_once_and_falls_back(fresh):
    encoder = fresh()
    with pytest.warns(
        UserWarning, match=r"no modules for Turkish \(tr\).*encoded by the base alone"
    ) as caught:
        vectors = encoder.encode(["Yeni kitap", "Taze ekmek"], lang="tr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.encode("Yeni kitap", lang="tur")
    assert len([warning for warning in caught if "Turkish" in str(warning.message)]) == 1
    assert near(vectors, encoder.encode(["Yeni kitap", "Taze ekmek"], lang="base"))


def test_fallbacks(fresh):
    with pytest.raises(LanguageError, match=r"'tr': no modules for Turkish \(tr\).*it has en, az, kk"):
        fresh(fallback="error").encode("Yeni kitap", lang="tr")
    with pytest.warns(UserWarning, match="encoded by the modules of az"):
        vector = fresh(fallback="aze").encode("Yeni kitap", lang="tr")
    assert near(vector, fresh().encode("Yeni kitap", lang="az"))
    with pytest.raises(LanguageError, match=r"'de': no modules for German"):
        fresh(fallback="de")


def test_by_default_a_pivot_of_sentence_encoding_alone_reads_other_languages(fresh, hub_copy):
    assert fresh().identify(["Yeni kitap"])[0].modules == "en"  # ByLetters takes it for English
    assert fresh(identifier=None).identify([GERMAN])[0].modules == "base"  # its pivot has a language adapter
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_lora(folder / "se", ("query", "value"), normal(seed=5), TINY)
        hub_copy.publish(folder, make_card("en", hub_copy.info))
    encoder = ModularEncoder(hub_copy.path)
    assert encoder.identify([GERMAN, TEXTS[1]])[0].modules == "en"
    with pytest.warns(UserWarning, match=r"no modules for German \(de\) in .*encoded by the modules of en"):
        vector = encoder.encode(GERMAN)
    assert near(vector, encoder.encode(GERMAN, lang="en"))
    bare = ModularEncoder(hub_copy.path, fallback="base")
    assert near(bare.encode(GERMAN), encoder.encode(GERMAN, lang="base"))


def test_low_confidence_goes_to_the_fallback(fresh):
    encoder = fresh(min_confidence=0.95)
    assert near(encoder.encode(TEXTS[:1]), encoder.encode(TEXTS[:1], lang="base"))
    with pytest.raises(
        LanguageError,
        match=r"'The teacher .*identified as English \(en\), with confidence 0\.95 beside the lang",
    ):
        fresh(min_confidence=0.95, fallback="error").encode(TEXTS)


GERMAN = "Das ist ein ganz gewöhnlicher deutscher Satz."


def test_identify_says_what_encode_does(fresh):
    encoder = fresh(identifier=None, fallback="az")
    routed = encoder.identify([GERMAN, TEXTS[0], TEXTS[1], "12345", "你好，世界"])
    assert [item.code for item in routed[:4]] == ["de", "en", "kk", "und"]
    assert [item.modules for item in routed] == ["az", "en", "kk", "en", "az"]
    assert [item.confidence > 0.5 for item in routed] == [True, True, True, False, True]
    with pytest.warns(UserWarning, match="encoded by the modules of az"):
        vectors = encoder.encode([GERMAN, TEXTS[0], TEXTS[1], "12345", "你好，世界"])
    expected = encoder.encode(
        [GERMAN, TEXTS[0], TEXTS[1], "12345", "你好，世界"], lang=[item.modules for item in routed]
    )
    assert near(vectors, expected)


def test_fallback_error_is_raised_for_other_languages_texts(fresh):
    encoder = fresh(identifier=None, fallback="error")
    with pytest.raises(LanguageError, match=r"'Das ist.*: identified as German \(de\), .*\(en, az, kk\);"):
        encoder.encode([TEXTS[0], GERMAN])
    assert encoder.identify([GERMAN])[0].modules is None
    assert [routing.modules for routing in encoder.identify([TEXTS[0], "123"])] == ["en", "en"]
    assert fresh(min_confidence=0.95, fallback="error").identify(TEXTS)[0].modules is None
    assert np.isfinite(encoder.encode([TEXTS[0], "123", "😀"])).all()


def test_languages_that_the_identifier_does_not_know_are_named_once(fresh, hub_copy):
    shutil.copytree(hub_copy.path / "az", hub_copy.path / "smn")
    encoder = ModularEncoder(hub_copy.path)
    message = r"the identifier does not know, .*: Inari Sami \(smn\)\. Give lang= for their texts"
    with pytest.warns(UserWarning, match=message) as caught:
        encoder.identify([TEXTS[0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.identify([TEXTS[1]])
        fresh(identifier=None).identify([TEXTS[1]])
    assert len([warning for warning in caught if "does not know" in str(warning.message)]) == 1


@pytest.mark.parametrize("bad", [None, 3, b"abc", [None], ["a", 3], [["a", "b"]], [b"a"], {"text": "a"}])
def test_what_is_no_text_is_refused(encoder, bad):
    with pytest.raises(TextError, match="expected a"):
        encoder.encode(bad)
    with pytest.raises(TextError, match="expected a"):
        encoder.identify(bad)


def test_a_megabyte_is_cut_first(encoder):
    start = time.perf_counter()
    vectors = encoder.encode(["кітап " * 170_000, "x" * 1_000_000, " " * 1_000_000])
    assert np.isfinite(vectors).all()
    assert time.perf_counter() - start < 5
    assert near(vectors[0], encoder.encode("кітап " * 1000))


def test_another_base_is_refused(tiny_hub, tiny_bert, tiny_xlmr):
    with pytest.raises(
        BaseModelError, match=r"expected the weights .* found fingerprint .*Give the folder or id"
    ):
        ModularEncoder(tiny_hub.path, base=str(tiny_bert))
    assert ModularEncoder(tiny_hub.path, base=str(tiny_xlmr)).languages == tiny_hub.languages()


def test_a_hub_that_is_gone_is_no_hub_without_languages(hub_copy):
    encoder = ModularEncoder(hub_copy.path)
    shutil.rmtree(hub_copy.path)
    with pytest.raises(HubError, match="the hub cannot be read any more"):
        encoder.encode("Қайырлы таң")


def test_modules_behind_a_hub_can_be_trained(fresh):
    head = torch.nn.Linear(HIDDEN, 2)
    encoder = fresh().train()
    features = encoder[0].preprocess(encoder.route(TEXTS[:2], "en"))
    pooled = encoder[1](encoder[0](features))["sentence_embedding"]
    head(pooled.clone()).sum().backward()
    assert head.weight.grad is not None


LONG = ["a small child reads " * 60, "күн сайын " * 90]


def cuts(encoder, texts, **options):
    """The vectors, and what warnings of cut texts say."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vectors = encoder.encode(texts, **options)
    found = [warning for warning in caught if isinstance(warning.message, TextsCutWarning)]
    assert all(warning.filename == __file__ for warning in found)
    return vectors, [str(warning.message) for warning in found]


def test_texts_that_are_cut_are_counted_once_a_call(fresh):
    encoder = fresh()
    encoder.max_seq_length = 100
    message = (
        "2 of 8 texts were longer than 100 tokens and were cut; raise encoder.max_seq_length (up to 128) or"
    )
    found = cuts(encoder, [*TEXTS, *LONG], batch_size=2)[1]
    assert found == [f"{message} split them"]
    assert cuts(encoder, TEXTS)[1] == []
    assert len(cuts(encoder, LONG[0], prompt="a child ", align=False)[1]) == 1
    encoder.max_seq_length = 128
    (at_most,) = cuts(encoder, LONG[0])[1]
    assert at_most == "1 of 1 texts were longer than 128 tokens and were cut; split them"


def test_the_last_token_that_fits_is_no_cut(fresh):
    encoder = fresh()
    for code, text in (("en", TEXTS[0]), ("kk", TEXTS[1])):
        encoder.max_seq_length = 128
        length = len(encoder[0].preprocess(encoder.route([text], code), prompt="query: ")["input_ids"][0])
        for limit, count in ((length, 0), (length - 1, 1)):
            encoder.max_seq_length = limit
            assert len(cuts(encoder, [text], lang=code)[1]) == count
            encoder.max_seq_length = 128


@pytest.mark.parametrize("align", [True, False])
def test_encode_under_autocast_gives_the_same_vectors(tiny_hub, align):
    right = ModularEncoder(tiny_hub.path).encode(TEXTS, align=align)
    encoder = ModularEncoder(tiny_hub.path)
    with torch.autocast("cpu", torch.bfloat16):
        assert np.array_equal(encoder.encode(TEXTS, align=align), right)
    assert np.array_equal(encoder.encode(TEXTS, align=align), right)


@pytest.mark.parametrize("code", ["und", "UND", "mul", "zxx", "und-Latn", "", " \t"])
def test_lang_may_say_that_the_language_is_not_known(encoder, code):
    right = encoder.encode(TEXTS)
    assert np.array_equal(encoder.encode(TEXTS, lang=code), right)
    assert np.array_equal(encoder.encode(TEXTS, lang=[code] * len(TEXTS)), right)
    assert [text.lang for text in encoder.route(TEXTS, code)] == [text.lang for text in encoder.route(TEXTS)]


@pytest.mark.parametrize("code", [None, "und", "", float("nan")])
def test_tagged_texts_keep_their_language_where_lang_names_none(encoder, code):
    tagged = [TaggedText(text, "az") for text in TEXTS[:2]]
    single = None if code != code else code  # NaN is of columns alone
    for lang in (single, [code, code]):
        assert [text.lang for text in encoder.route(tagged, lang)] == ["az", "az"]
    assert [text.lang for text in encoder.route([*tagged, TEXTS[0]], [code, "en", code])] == [
        "az",
        "en",
        "en",
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda t: unicodedata.normalize("NFD", t),
        lambda t: f" \u202b{t}\u202c\u200b",
        lambda t: t.replace(" ", "\u00ad \n\t" + " " * 20_000),
    ],
)
def test_texts_that_read_alike_have_equal_vectors(encoder, change):
    texts = [*TEXTS, "형은 지난주에 새 자전거를 샀습니다.", "Un élève a été reçu à l’université."]
    changed = [change(text) for text in texts]
    assert changed != texts
    assert np.array_equal(encoder.encode(changed), encoder.encode(texts))
    assert np.array_equal(encoder.encode(changed, lang="kk"), encoder.encode(texts, lang="kk"))


def test_each_call_tokenizes_its_texts_once(tiny_hub, monkeypatch):
    encoder = ModularEncoder(tiny_hub.path)
    counted = []

    def counting(tokenizer, texts, max_length):
        counted.extend(texts)
        return tokenize(tokenizer, texts, max_length)

    monkeypatch.setattr(st_module, "tokenize", counting)
    tagged = encoder.route(TEXTS)
    plain = encoder.encode(tagged)
    assert len(counted) == len(TEXTS)
    other = encoder.encode(tagged, prompt="another: ")
    assert len(counted) == 2 * len(TEXTS)
    assert not np.allclose(plain, other, atol=1e-3)
    assert np.array_equal(encoder.encode(tagged), plain)


def test_a_language_that_is_new_in_the_hub_is_found_by_its_code(hub_copy, tmp_path):
    other = Hub.open(shutil.copytree(hub_copy.path, tmp_path / "other"))
    other.remove("kk")
    encoder = ModularEncoder(other.path)
    assert encoder.identify(["Good morning", "Қайырлы таң"])[1].modules == "base"
    other.install(hub_copy.folder("kk"))
    right = ModularEncoder(hub_copy.path).encode(TEXTS[1], lang="kk")
    assert np.array_equal(encoder.encode(TEXTS[1], lang="kk"), right)
    assert encoder.identify(["Қайырлы таң"])[0].modules == "kk"
