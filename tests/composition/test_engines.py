"""The batched engine gives what one composed body per language gives, whatever the mixture."""

from threading import Thread

import pytest
import torch

from modenc.base_model import resolve_base
from modenc.composition import bert
from modenc.composition import engine as engines
from modenc.composition.bert import QUERY, OneDnnDense, TorchDense, make_dense, onednn_works, round_up_tokens
from modenc.composition.body import compose
from modenc.composition.engine import Engine, LoadedLanguage
from modenc.composition.modules import LanguageModules
from modenc.errors import HubError
from modenc.hub.checks import LoraLayer, ParallelAdapter
from modenc.languages import BASE

HIDDEN, INNER, LAYERS = 32, 64, 2
SITES = {
    "attention.self.query": (HIDDEN, HIDDEN),
    "attention.self.key": (HIDDEN, HIDDEN),
    "attention.self.value": (HIDDEN, HIDDEN),
    "attention.output.dense": (HIDDEN, HIDDEN),
    "intermediate.dense": (HIDDEN, INNER),
    "output.dense": (INNER, HIDDEN),
}


def made(lang, seed, rank=4, bottleneck=8, sites=SITES):
    """A language's random modules; ``bottleneck=0``: no alignment."""
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape):
        return torch.randn(*shape, generator=generator) * 0.1

    lora = {
        f"encoder.layer.{layer}.{name}": LoraLayer(rand(rank, sites[name][0]), rand(sites[name][1], rank))
        for layer in range(LAYERS)
        for name in sites
    }
    parallel = {
        layer: ParallelAdapter(
            rand(bottleneck, HIDDEN), rand(bottleneck), rand(HIDDEN, bottleneck), rand(HIDDEN)
        )
        for layer in range(LAYERS if bottleneck else 0)
    }
    return LanguageModules(lang, None, None, lora, parallel)


ATTENTION = {name: size for name, size in SITES.items() if "self" in name}
LANGUAGES = [
    made("en", 1, bottleneck=0),
    made("kk", 2, rank=3),
    made("az", 3, rank=12, bottleneck=20),
    made("ky", 4, sites=ATTENTION),
]
ROWS = ["kk", BASE, "en", "az", "kk", "ky", "az", "kk"]


@pytest.fixture(params=["tiny_bert", "tiny_xlmr"])
def body(request):
    return resolve_base(str(request.getfixturevalue(request.param))).load_body().requires_grad_(False)


class Filled:
    """An engine that finds its languages by their codes."""

    def __init__(self, body, precision="fp32", languages=LANGUAGES):
        self.engine = Engine(body, precision)
        self.languages = {BASE: LoadedLanguage()} | {each.lang: self.engine.put(each) for each in languages}

    def run(self, ids, mask, codes, *, align):
        return self.engine.run(ids, mask, [self.languages[code] for code in codes], align=align)


@pytest.fixture
def engine(body):
    return Filled(body)


def batch(rows=8, longest=20):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, longest + 1, (rows,), generator=generator)
    ids = torch.randint(5, 60, (rows, longest), generator=generator)
    mask = (torch.arange(longest) < lengths[:, None]).long()
    return ids.masked_fill(mask == 0, 1), mask


def expected(body, ids, mask, languages, align):
    """One row after another, without padding."""
    known = {modules.lang: modules for modules in LANGUAGES}
    output = torch.zeros(*ids.shape, HIDDEN)
    for row, code in enumerate(languages):
        composed = body if code == BASE else compose(body, known[code], align=align)
        width = int(mask[row].sum())
        output[row, :width] = composed(input_ids=ids[row : row + 1, :width]).last_hidden_state[0]
    return output


@torch.inference_mode()
def close(engine, body, ids, mask, languages, align=True, tolerance=1e-5):
    found = engine.run(ids, mask, languages, align=align)
    right = expected(body, ids, mask, languages, align)
    return found.shape == right.shape and bool((found - right).abs().max() <= tolerance)


@pytest.mark.parametrize("align", [True, False])
def test_a_mixed_batch_equals_one_body_per_language(engine, body, align):
    ids, mask = batch()
    assert close(engine, body, ids, mask, ROWS, align)
    assert (engine.run(ids, mask, ROWS, align=align)[mask == 0] == 0).all()


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("code", ["kk", "en", BASE])
def test_a_merged_language_equals_its_body(body, code, align, monkeypatch):
    monkeypatch.setattr(engines, "_TOKENS_BEFORE_MERGING", 1)
    engine = Filled(body)
    ids, mask = batch()
    assert close(engine, body, ids, mask, [code] * len(ROWS), align)
    assert bool(engine.engine._merged) == (code != BASE)


def test_merging_waits_until_it_pays(body):
    engine = Filled(body, languages=LANGUAGES[1:2])
    ids, mask = batch(rows=64, longest=60)
    engine.run(ids[:2], mask[:2], ["kk"] * 2, align=True)
    assert not engine.engine._merged
    for _ in range(4):
        engine.run(ids, mask, ["kk"] * 64, align=True)
    assert engine.engine._merged


def test_languages_with_the_same_adapter_share_a_merged_copy(body, monkeypatch):
    monkeypatch.setattr(engines, "_TOKENS_BEFORE_MERGING", 1)
    alike, other = made("kk", 7), made("az", 8)
    az = LanguageModules("az", None, None, alike.lora, other.parallel_adapters)
    engine = Filled(body, languages=[alike, az])
    ids, mask = batch(rows=4)
    found = engine.run(ids, mask, ["kk", "az", "kk", "az"], align=False)
    assert len(engine.engine._merged) == 1
    engine.run(ids, mask, ["kk"] * 4, align=False)
    assert len(engine.engine._merged) == 1
    assert torch.allclose(found, engine.run(ids, mask, ["az"] * 4, align=False), atol=1e-5)
    mixed = engine.run(ids, mask, ["kk", "az", "kk", "az"], align=True)
    for code, rows in (("kk", [0, 2]), ("az", [1, 3])):
        alone = engine.run(ids[rows], mask[rows], [code] * 2, align=True)
        assert torch.allclose(mixed[rows], alone, atol=1e-5)


def test_padding_inside_a_text_has_the_position_it_has_in_the_body(engine, body):
    ids, mask = batch()
    ids[:, 1] = body.config.pad_token_id
    assert close(engine, body, ids, mask, ROWS)


def test_a_batch_sees_the_languages_that_it_began_with(body):
    """Others are put in while it computes."""
    engine = Filled(body)
    ids, mask = batch()
    right = expected(body, ids, mask, ROWS, align=True)
    stop, issues = [], []

    def add():
        number = 0
        while not stop and number < 60:
            number += 1
            engine.engine.put(made(f"x{number}", number, rank=number))

    def encode():
        with torch.inference_mode():
            for _ in range(30):
                found = engine.run(ids, mask, ROWS, align=True)
                if not torch.allclose(found, right, atol=1e-5):
                    issues.append(float((found - right).abs().max()))

    other = Thread(target=add)
    encoders = [Thread(target=encode) for _ in range(3)]
    other.start()
    for thread in encoders:
        thread.start()
    for thread in encoders:
        thread.join()
    stop.append(True)
    other.join()
    assert issues == []


def test_bf16_is_near(body):
    engine = Filled(body, "bf16")
    ids, mask = batch()
    found = engine.run(ids, mask, ROWS, align=True)
    right = expected(body, ids, mask, ROWS, align=True)
    assert found.dtype == torch.float32
    assert torch.nn.functional.cosine_similarity(found[mask == 1], right[mask == 1], dim=-1).min() > 0.99
    assert not torch.equal(found, right)


def test_what_does_not_fit_is_refused(engine):
    narrow = LoraLayer(torch.ones(4, 7), torch.ones(7, 4))
    foreign = LanguageModules("tr", None, None, {"encoder.layer.0.output.dense": narrow}, {})
    with pytest.raises(HubError, match=r"tr: the adapter of encoder\.layer\.0\.output\.dense maps 7 to 7"):
        engine.engine.put(foreign)
    deep = LanguageModules("tr", None, None, {}, {5: made("tr", 1).parallel_adapters[0]})
    with pytest.raises(HubError, match="tr: alignment of layer 5, the base has 2"):
        engine.engine.put(deep)


@pytest.mark.slow
@pytest.mark.parametrize("codes", [["kk"], ["kk", "az", BASE]])
def test_layers_meet_few_numbers_of_tokens(body, codes, monkeypatch):
    monkeypatch.setattr(bert, "torch_is_faster", lambda: False)
    monkeypatch.setattr(engines, "_TOKENS_BEFORE_MERGING", 1)
    met = set()

    def recorded(*given):
        dense = make_dense(*given)

        class Recorded:
            wants_few_sizes = dense.wants_few_sizes

            def __call__(self, x, *rest, **options):
                met.add(len(x))
                return dense(x, *rest, **options)

        return Recorded()

    monkeypatch.setattr(bert, "make_dense", recorded)
    engine = Filled(body)
    generator = torch.Generator().manual_seed(0)
    for width in range(20, 60):
        ids = torch.randint(5, 60, (3, width), generator=generator)
        assert close(engine, body, ids, torch.ones_like(ids), (codes * 3)[:3])
    assert met == {round_up_tokens(3 * width) for width in range(20, 60)}
    assert len(met) < 15


@pytest.mark.parametrize("faster", [True, False])
def test_the_faster_library_multiplies_and_results_agree(body, faster, monkeypatch):
    monkeypatch.setattr(bert, "torch_is_faster", lambda: faster)
    monkeypatch.setattr(engines, "_TOKENS_BEFORE_MERGING", 1)
    engine = Filled(body)
    ids, mask = batch()
    assert isinstance(engine.engine._base_layers[0].dense[QUERY], TorchDense) == (
        faster or not onednn_works(torch.float32)
    )
    assert close(engine, body, ids, mask, ROWS)
    assert close(engine, body, ids, mask, ["kk"] * len(ROWS))


def test_oneDNN_multiplies_float32_with_avx512_alone(monkeypatch):
    for capability, torchs in (("AVX2", True), ("DEFAULT", True), ("AVX512", False)):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda found=capability: found)
        assert bert.torch_is_faster() == torchs


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kernels_agree(dtype, monkeypatch):
    monkeypatch.setattr(bert, "torch_is_faster", lambda: False)
    torch.manual_seed(0)
    weight, bias = torch.randn(24, 40).to(dtype), torch.randn(24).to(dtype)
    x, residual = torch.randn(3, 5, 40).to(dtype), torch.randn(3, 5, 24).to(dtype)
    reference = TorchDense(weight, bias)
    layer = make_dense(weight, bias, "fp32")
    assert isinstance(layer, OneDnnDense) == onednn_works(dtype)
    tolerance = {"atol": 1e-5} if dtype == torch.float32 else {"atol": 0.05, "rtol": 0.02}
    for options in ({}, {"activation": "gelu"}, {"activation": "relu"}, {"residual": residual}):
        assert torch.allclose(layer(x, **options), reference(x, **options), **tolerance)
