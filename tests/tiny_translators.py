"""Tiny random translation models of each family, with their real tokenizers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import sentencepiece
import tiny_models
import torch
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    NllbTokenizerFast,
)

_PIECES = 160
_SIZES = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 64,
    # Larger than usual, so that each text has a translation of its own without any training.
    "init_std": 0.5,
}


def _pieces(folder: Path, name: str, **options: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(tiny_models.all_sentences()),
        model_prefix=str(folder / name),
        vocab_size=_PIECES,
        minloglevel=2,
        **options,
    )
    return folder / f"{name}.model"


def _plain(folder: Path) -> str:
    folder.mkdir(parents=True)
    plain = folder / "plain.json"
    tiny_models.unigram_tokenizer(tiny_models.all_sentences()).backend_tokenizer.save(str(plain))
    return str(plain)


def save_tiny_nllb(folder: Path) -> Path:
    tokenizer = NllbTokenizerFast(tokenizer_file=_plain(folder), model_max_length=32)
    return tiny_models.save(_m2m100(len(tokenizer)), tokenizer, folder)


def save_tiny_m2m100(folder: Path) -> Path:
    pieces = _pieces(folder / "made", "spm")
    names = sentencepiece.SentencePieceProcessor(str(pieces))
    words = ["<s>", "<pad>", "</s>", "<unk>", *(names.id_to_piece(i) for i in range(3, _PIECES))]
    vocabulary = folder / "made" / "vocab.json"
    vocabulary.write_text(json.dumps({word: place for place, word in enumerate(words)}))
    tokenizer = M2M100Tokenizer(str(vocabulary), str(pieces), model_max_length=32)
    return tiny_models.save(_m2m100(len(words) + len(tokenizer.lang_token_to_id) + 8), tokenizer, folder)


def _m2m100(size: int) -> M2M100ForConditionalGeneration:
    torch.manual_seed(7)
    return M2M100ForConditionalGeneration(M2M100Config(vocab_size=size, decoder_start_token_id=2, **_SIZES))


def save_tiny_marian(folder: Path) -> Path:
    pieces = _pieces(folder / "made", "spm")
    names = sentencepiece.SentencePieceProcessor(str(pieces))
    words = ["</s>", "<unk>", *(names.id_to_piece(i) for i in range(3, _PIECES)), "<pad>"]
    vocabulary = folder / "made" / "vocab.json"
    vocabulary.write_text(json.dumps({word: place for place, word in enumerate(words)}))
    tokenizer = MarianTokenizer(str(pieces), str(pieces), str(vocabulary), model_max_length=32)
    torch.manual_seed(5)
    pad = len(words) - 1
    config = MarianConfig(
        vocab_size=len(words), pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad, **_SIZES
    )
    return tiny_models.save(MarianMTModel(config), tokenizer, folder)
