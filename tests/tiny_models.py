"""Tiny real models: two bases with tokenizers of both kinds, and a hub of three languages."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    BertConfig,
    BertModel,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from modenc.base_model.resolve import fingerprint_of
from modenc.hub.card import Card
from modenc.hub.layout import HubInfo
from modenc.hub.store import Hub
from modenc.languages import language_name

HIDDEN, LAYERS, HEADS, INNER, POSITIONS = 32, 2, 4, 64, 128
RANK, ALPHA, BOTTLENECK = 4, 8, 16

# Who, does, what, where: every combination is a sentence.
_WORDS: dict[str, tuple[str, ...]] = {
    "en": (
        "The teacher|My brother|A small child|The old farmer|Our neighbour",
        "reads|brings|finds|buys",
        "a new book|fresh bread|some warm milk|the red apple",
        "in the library|at home today|near the river|every morning",
    ),
    "kk": (
        "Мұғалім|Менің ағам|Кішкентай бала|Қарт диқан|Біздің көршіміз",
        "жаңа кітапты|жас нанды|жылы сүтті|қызыл алманы",
        "кітапханада|бүгін үйде|өзеннің жанында|күн сайын таңертең",
        "оқиды|әкеледі|табады|сатып алады",
    ),
    "az": (
        "Müəllim|Mənim qardaşım|Balaca uşaq|Qoca əkinçi|Qonşumuz",
        "yeni kitabı|təzə çörəyi|ilıq südü|qırmızı almanı",
        "kitabxanada|bu gün evdə|çayın yanında|hər səhər",
        "oxuyur|gətirir|tapır|alır",
    ),
    "ug": (
        "ئوقۇتقۇچى|مېنىڭ ئاكام|كىچىك بالا|قېرى دېھقان|قوشنىمىز",
        "يېڭى كىتابنى|يېڭى ناننى|ئىللىق سۈتنى|قىزىل ئالمىنى",
        "كۈتۈپخانىدا|بۈگۈن ئۆيدە|دەريا بويىدا|ھەر ئەتىگەن",
        "ئوقۇيدۇ|ئېلىپ كېلىدۇ|تاپىدۇ|سېتىۋالىدۇ",
    ),
}


def sentences(lang: str) -> list[str]:
    """The 320 sentences of a language, in a fixed order; row i of all languages has the same subject."""
    parts = [slot.split("|") for slot in _WORDS[lang]]
    return [" ".join(words) + "." for words in product(*parts)]


def all_sentences() -> list[str]:
    return [sentence for lang in _WORDS for sentence in sentences(lang)]


def unigram_tokenizer(texts: list[str], size: int = 400) -> PreTrainedTokenizerFast:
    """As XLM-R's: ``<s> 0 <pad> 1 </s> 2 <unk> 3 … <mask>`` last, Metaspace before and after."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token=AddedToken("<mask>", lstrip=True, special=True),
        model_max_length=POSITIONS,
    )


def wordpiece_tokenizer(texts: list[str], size: int = 500) -> PreTrainedTokenizerFast:
    """As BERT's and LaBSE's: ``[PAD] 0 [UNK] 1 [CLS] 2 [SEP] 3 [MASK] 4``, case kept."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=POSITIONS,
    )


def save_tiny_xlmr(folder: Path) -> Path:
    """An XLM-R body with a Unigram tokenizer, as ``save_pretrained`` writes them."""
    tokenizer = unigram_tokenizer(all_sentences())
    torch.manual_seed(1)
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=POSITIONS + 2,
        type_vocab_size=1,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        **_sizes(),
    )
    return _save(XLMRobertaModel(config, add_pooling_layer=False), tokenizer, folder)


def save_tiny_bert(folder: Path) -> Path:
    """A BERT body with a WordPiece tokenizer, as ``save_pretrained`` writes them."""
    tokenizer = wordpiece_tokenizer(all_sentences())
    torch.manual_seed(2)
    config = BertConfig(
        vocab_size=len(tokenizer), max_position_embeddings=POSITIONS, pad_token_id=0, **_sizes()
    )
    return _save(BertModel(config, add_pooling_layer=False), tokenizer, folder)


def _sizes() -> dict[str, float]:
    return {
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        # Larger than usual, so that texts differ clearly without any training.
        "initializer_range": 0.15,
    }


def _save(body: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Path:
    body.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_hub(path: Path, base: Path, languages: tuple[str, ...] = ("en", "kk", "az")) -> Hub:
    """A hub of random modules: kk has every part, en (the pivot) and az keep the base's vocabulary."""
    body = XLMRobertaModel.from_pretrained(base, add_pooling_layer=False)
    hub = Hub.create(
        path, HubInfo(str(base), fingerprint_of(body), HIDDEN, "en", "mean", "query: ", POSITIONS)
    )
    for lang in languages:
        with hub.staging(lang) as staging:
            write_modules(staging, lang, seed=sum(lang.encode()))
            hub.publish(staging, card(hub.info, lang))
    return hub


def write_modules(folder: Path, lang: str, seed: int) -> None:
    """Random modules for a tiny base in the formats of peft and adapters."""
    generator = torch.Generator().manual_seed(seed)
    if lang == "kk":
        tokenizer = unigram_tokenizer(sentences("kk"), size=150)
        tokenizer.save_pretrained(folder / "tokenizer")
        table = torch.randn(len(tokenizer), HIDDEN, generator=generator) * 0.15
        save_file({"embeddings": table.half()}, folder / "embeddings.safetensors")
    write_lora(folder / "la", ("query", "key", "value"), generator)
    write_lora(folder / "se", ("query", "key", "value", "dense"), generator)
    if lang != "en":
        write_parallel(folder / "cla", generator)


def write_lora(folder: Path, targets: tuple[str, ...], generator: torch.Generator) -> None:
    shapes = {
        "attention.self.query": (HIDDEN, HIDDEN),
        "attention.self.key": (HIDDEN, HIDDEN),
        "attention.self.value": (HIDDEN, HIDDEN),
        "attention.output.dense": (HIDDEN, HIDDEN),
        "intermediate.dense": (INNER, HIDDEN),
        "output.dense": (HIDDEN, INNER),
    }
    tensors = {}
    for layer, (name, (rows, columns)) in product(range(LAYERS), shapes.items()):
        if name.rsplit(".", 1)[-1] in targets:
            key = f"base_model.model.encoder.layer.{layer}.{name}"
            tensors[f"{key}.lora_A.weight"] = _random(generator, RANK, columns)
            tensors[f"{key}.lora_B.weight"] = _random(generator, rows, RANK)
    settings = {
        "peft_type": "LORA",
        "r": RANK,
        "lora_alpha": ALPHA,
        "lora_dropout": 0.1,
        "target_modules": list(targets),
        "bias": "none",
        "inference_mode": True,
        "use_dora": False,
        "use_rslora": False,
    }
    _write_part(folder, "adapter_model.safetensors", tensors, settings)


def write_parallel(folder: Path, generator: torch.Generator) -> None:
    tensors = {}
    for layer in range(LAYERS):
        key = f"encoder.layer.{layer}.output.adapters.cla"
        tensors[f"{key}.adapter_down.0.weight"] = _random(generator, BOTTLENECK, HIDDEN)
        tensors[f"{key}.adapter_down.0.bias"] = _random(generator, BOTTLENECK)
        tensors[f"{key}.adapter_up.weight"] = _random(generator, HIDDEN, BOTTLENECK)
        tensors[f"{key}.adapter_up.bias"] = _random(generator, HIDDEN)
    config = {
        "adapter_residual_before_ln": False,
        "cross_adapter": False,
        "dropout": 0.0,
        "init_weights": "mam_adapter",
        "is_parallel": True,
        "ln_after": False,
        "ln_before": False,
        "mh_adapter": False,
        "non_linearity": "relu",
        "original_ln_after": True,
        "original_ln_before": False,
        "output_adapter": True,
        "reduction_factor": HIDDEN // BOTTLENECK,
        "residual_before_ln": True,
        "scaling": 4.0,
    }
    about = {
        "config": config,
        "hidden_size": HIDDEN,
        "model_class": "XLMRobertaModel",
        "model_name": "",
        "model_type": "xlm-roberta",
        "name": "cla",
        "version": "adapters.1.3.0",
    }
    _write_part(folder, "adapter.safetensors", tensors, about)


def card(info: HubInfo, lang: str) -> Card:
    plain = Card(
        lang=lang,
        name=language_name(lang),
        base_id=info.base_id,
        base_fingerprint=info.base_fingerprint,
        stages={"sentence_encoding": {}},
        data=[{"role": "text", "source": "made up", "licence": "CC0-1.0", "rows": 320}],
        licences=["CC0-1.0"],
        scores={},
        recipe="tiny",
        recipe_hash="0" * 64,
        seed=0,
        versions={},
        created="2025-01-01",
    )
    return plain if lang == info.pivot else replace(plain, stages={**plain.stages, "alignment": {}})


def _random(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return (torch.randn(*shape, generator=generator) * 0.15).half()


def _write_part(
    folder: Path, weights: str, tensors: dict[str, torch.Tensor], config: dict[str, object]
) -> None:
    folder.mkdir(parents=True)
    save_file(tensors, folder / weights)
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2))
