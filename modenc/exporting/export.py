"""Export of one language of a hub as a folder that plain sentence-transformers loads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, normalizers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from modenc.base_model import resolve_base
from modenc.composition.body import compose
from modenc.composition.modules import to_modules
from modenc.composition.st_module import load_body, most_positions
from modenc.errors import OptionError, require_extra
from modenc.exporting.graphs import write_onnx, write_openvino
from modenc.exporting.widening import widen
from modenc.hub.card import Card
from modenc.hub.layout import (
    MODULES_FILE,
    POOLING_FOLDER,
    README_FILE,
    HubInfo,
    json_text,
    pooling_and_prompts,
)
from modenc.hub.page import base_page, front_matter, render
from modenc.hub.remote import open_hub
from modenc.hub.store import Hub
from modenc.languages import normalize_code
from modenc.storage import disk_errors, whole_folder
from modenc.texts import INVISIBLE, JOINERS, PILED_MARKS, STRETCHES, normalize_prompt

FORMATS = ("sentence-transformers", "onnx", "openvino")

# What is removed from the ends of texts.
_ENDS = "[ \u200b-\u200d]+"


def export(
    hub: str | Path | Hub,
    lang: str,
    output: str | Path,
    *,
    to: str = "sentence-transformers",
    align: bool = True,
    int8: bool = False,
    base: str | None = None,
) -> Path:
    """Write one language as a model that loads without modenc.

    LoRAs are merged into the weights. A parallel adapter becomes more neurons of the feed-forward layers in
    ``sentence-transformers``, and stays an adapter in the graphs of the other formats.

    Args:
        hub: a hub, its folder, or its id on Hugging Face (``organization/name``).
        lang: the language's code.
        output: a new or empty folder.
        to: ``sentence-transformers``, or ``onnx`` or ``openvino`` for its backends of these names.
        align: include the alignment adapter, if the language has one.
        int8: quantize to 8 bits; for ``onnx`` and ``openvino``.
        base: folder or id of the base, if it is not found under the name in the hub.

    Returns:
        ``output``.

    Raises:
        OptionError: ``to`` is unknown, ``int8`` does not go with it, ``output`` holds files, or a plain model
            of this base cannot hold the alignment adapter.
        LanguageError: ``lang`` is no language.
        HubError: the hub or the language is missing or damaged.
        BaseModelError: the base is missing or not the hub's.
        MissingExtraError: a package for the format is not installed.
        StorageError: the disk is full or read-only; nothing is left in ``output``.

    Examples:
        >>> import modenc
        >>> folder = modenc.export("adapters_hub/me5-small", "kk", "kazakh_model")
        >>> from sentence_transformers import SentenceTransformer
        >>> vectors = SentenceTransformer(str(folder)).encode(["Қайырлы таң"])
    """
    output = _new_folder(output, to, int8=int8)
    opened, code = open_hub(hub), normalize_code(lang)
    found = resolve_base(base or opened.info.base_id)
    modules = to_modules(opened.read(code))
    body = load_body(found, opened)
    tokenizer = modules.tokenizer or found.load_tokenizer()
    output.parent.mkdir(parents=True, exist_ok=True)
    with disk_errors(output.parent, "nothing was exported"), whole_folder(output) as folder:
        composed = compose(body, modules, align=align)
        composed.config.save_pretrained(folder)
        if to == FORMATS[0]:
            _write_model(widen(body, modules, align=align), folder)
        elif to == "onnx":
            write_onnx(composed, folder, int8=int8)
        else:
            write_openvino(composed, tokenizer, folder, int8=int8)
        max_length = min(opened.info.max_length, most_positions(body))
        page = _page(
            opened.card(code),
            opened.info,
            to=to,
            int8=int8,
            aligned=bool(align and modules.parallel_adapters),
            max_length=max_length,
        )
        _write_settings(folder, tokenizer, opened.info, max_length, page)
    return output


def _new_folder(output: str | Path, to: str, *, int8: bool) -> Path:
    """Check the arguments and return the absolute path of the output."""
    if to not in FORMATS:
        raise OptionError(f"to: expected {', '.join(FORMATS)}, found {to!r:.60}")
    if int8 and to == FORMATS[0]:
        raise OptionError(
            f"int8: expected the format onnx or openvino, found {to!r}, which computes in floating point; "
            "choose one of these (--to onnx), or leave int8 out"
        )
    if to == "onnx":
        require_extra("onnx", "optimum", "onnx", "onnxruntime")
    elif to == "openvino":
        require_extra("openvino", "openvino", "nncf")
    output = Path(output).absolute()
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise OptionError(f"output: expected a new or empty folder, found files in {output}; choose another")
    return output


def _write_model(model: PreTrainedModel, folder: Path) -> None:
    """Save a model with a pooler of zeros, which nothing uses; transformers would warn without it."""
    size = model.config.hidden_size
    pooler = {"pooler.dense.weight": torch.zeros(size, size), "pooler.dense.bias": torch.zeros(size)}
    model.save_pretrained(folder, state_dict=model.state_dict() | pooler)


def with_normalization(tokenizer: PreTrainedTokenizerFast, prompt: str) -> PreTrainedTokenizerFast:
    """Make a tokenizer that does to a text what encoding does, and then what ``tokenizer`` does.

    Args:
        tokenizer: not changed.
        prompt: the prompt before texts; it is kept where a text is empty or begins with blanks.
    """
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    own = [backend.normalizer] if backend.normalizer else []
    backend.normalizer = normalizers.Sequence([*normalization(prompt), *own])
    # A class of a model's own may build its normalizer anew when it is loaded.
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=tokenizer.model_max_length,
        model_input_names=tokenizer.model_input_names,
        **tokenizer.special_tokens_map,
    )


def normalization(prompt: str) -> list[normalizers.Normalizer]:
    """Return the steps of :func:`modenc.texts.normalize`, for a text with its prompt."""
    prefix = normalize_prompt(prompt)
    compose = [normalizers.Replace(Regex(PILED_MARKS), ""), normalizers.NFC()]
    return [
        # Blanks as in str.split, and Braille's.
        normalizers.Replace(Regex("[\\s\x1c-\x1f\u2800]+"), " "),
        normalizers.Replace(Regex(INVISIBLE), ""),
        *compose,
        normalizers.Replace(Regex(JOINERS), ""),
        normalizers.Replace(Regex(STRETCHES), ""),
        *compose,
        normalizers.Replace(Regex(rf"\A{_ENDS}|{_ENDS}\z"), ""),
        normalizers.Replace(Regex(" +"), " "),
        normalizers.Replace(Regex(rf"\A{re.escape(prefix.rstrip())}(?:{_ENDS}|\z)"), prefix),
    ]


def _page(card: Card, info: HubInfo, **exported: Any) -> str:
    """Write the text of the README; ``exported`` describes the model."""
    page = base_page(info.base_id)
    # A folder's path would reveal names on this machine.
    own = info.base_id if page else Path(info.base_id).name
    metadata = front_matter(card, "sentence-transformers", "feature-extraction")
    values = {"card": card, "info": info, "base": page or own, "base_name": own, "metadata": metadata}
    return render("model.md.j2", exported=exported, **values)


def _write_settings(
    folder: Path, tokenizer: PreTrainedTokenizerFast, info: HubInfo, max_length: int, page: str
) -> None:
    """Write the tokenizer, sentence-transformers' configuration for all of its versions, and the README."""
    with_normalization(tokenizer, info.prompt).save_pretrained(folder)
    kinds = (("Transformer", ""), ("Pooling", POOLING_FOLDER))
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(kinds)
    ]
    settings = {
        "max_seq_length": max_length,
        "do_lower_case": False,
        # Otherwise transformers 4.57 would warn that a large tokenizer is a faulty one of Mistral's.
        "tokenizer_args": {"fix_mistral_regex": False},
    }
    files = {
        **pooling_and_prompts(info),
        "sentence_bert_config.json": json_text(settings),
        MODULES_FILE: json_text(modules),
        README_FILE: page,
    }
    (folder / POOLING_FOLDER).mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
