"""Tiny real models: two bases with tokenizers of both kinds, and sentences of four languages."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import torch
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
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaModel,
)

HIDDEN, LAYERS, HEADS, INNER, POSITIONS = 32, 2, 4, 64, 128

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
    return save(XLMRobertaModel(config, add_pooling_layer=False), tokenizer, folder)


def save_tiny_bert(folder: Path) -> Path:
    """A BERT body with a WordPiece tokenizer, as ``save_pretrained`` writes them."""
    tokenizer = wordpiece_tokenizer(all_sentences())
    torch.manual_seed(2)
    config = BertConfig(
        vocab_size=len(tokenizer), max_position_embeddings=POSITIONS, pad_token_id=0, **_sizes()
    )
    return save(BertModel(config, add_pooling_layer=False), tokenizer, folder)


def _sizes() -> dict[str, float]:
    return {
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        # Larger than usual, so that texts differ clearly without any training.
        "initializer_range": 0.15,
    }


def save(body: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> Path:
    body.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def randomize(model: torch.nn.Module, part: str, seed: int, std: float = 0.1) -> None:
    """Draw the parameters with this part in their names."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if part in name:
                parameter.normal_(0, std)
