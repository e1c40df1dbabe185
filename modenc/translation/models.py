"""Translation by neural models: their files, their tokenizers, and what both engines do alike."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modenc.errors import BaseModelError, ModencError
from modenc.extras import require_extra
from modenc.translation.language_tags import LanguageTags, language_tags

_MOST_TOKENS = 512
"""Of a text, if the model does not say less: none of the families was trained on more."""
_MOST_SHOWN = 500
_COMMIT = re.compile(r"[0-9a-f]{40}")
_DIGITS = 16


@dataclass(frozen=True)
class Generation:
    """How translations are searched for."""

    beams: int = 4
    """Hypotheses that are kept at a time; 1 is greedy, and fastest."""
    batch_size: int = 16
    """Texts at a time."""


def find_model(name: str) -> tuple[str, str | None, Path]:
    """What a model's name stands for: its location, its revision, and the folder of its files.

    Args:
        name: a folder, or a Hugging Face id as ``id`` or ``id@revision``.

    Raises:
        MissingExtraError: what reads tokenizers is not installed.
        BaseModelError: there is no such model, or it cannot be fetched.
    """
    from modenc.base_model.trust import model_folder, refuse_adapter

    require_extra("translate", "sentencepiece")
    local = Path(name).expanduser()
    if not local.is_dir() and (local.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1):
        raise BaseModelError(f"{name}: expected a translation model's folder, found no such folder")
    location, _, revision = (str(local), "", "") if local.is_dir() else name.partition("@")
    with clear_errors(name):
        folder = model_folder(location, revision or None)
    refuse_adapter(name, folder)
    return location, revision or None, folder


@contextmanager
def clear_errors(name: str) -> Iterator[None]:
    """What libraries raise on a damaged or missing model becomes a :class:`BaseModelError`."""
    try:
        yield
    except ModencError:
        raise
    except Exception as error:  # of several libraries, and whatever a damaged file makes of it
        raise BaseModelError(
            f"{name}: expected a translation model's folder, or its id on Hugging Face; found "
            f"{str(error)[:_MOST_SHOWN]}"
        ) from error


class PairTokenizer:
    """One step's texts as a model's tokens, and back.

    Args:
        tokenizer: the model's.
        tags: the step's languages.
        positions: the most tokens that the model takes; ``None``: it does not say.
    """

    def __init__(self, tokenizer: Any, tags: LanguageTags, positions: int | None) -> None:
        self.tokenizer = tokenizer
        self.tags = tags
        self.longest = min(int(tokenizer.model_max_length), positions or _MOST_TOKENS, _MOST_TOKENS)

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text, tags included, not cut."""
        if self.tags.source is not None:
            self.tokenizer.src_lang = self.tags.source
        found = self.tokenizer([self.tags.before_text + text for text in texts], verbose=False)
        return [list(ids) for ids in found["input_ids"]]

    def cut(self, tokens: list[int]) -> list[int]:
        """At most as many tokens as the model takes; what ends a text stays at the end."""
        return tokens if len(tokens) <= self.longest else [*tokens[: self.longest - 1], tokens[-1]]

    def text(self, tokens: Sequence[int]) -> str:
        """The text of generated tokens."""
        # Not every tokenizer takes its languages for special tokens.
        tag = self.target_id()
        return str(self.tokenizer.decode([i for i in tokens if i != tag], skip_special_tokens=True)).strip()

    def target_id(self) -> int | None:
        """The id of the token that a translation begins with."""
        if self.tags.target is None:
            return None
        return int(self.tokenizer.convert_tokens_to_ids(self.tags.target))

    def most_new(self, longest: int) -> int:
        """Tokens that a translation of a text of ``longest`` tokens may have."""
        return int(min(self.longest, 2 * longest + 20))


def make_pair_tokenizer(
    name: str, folder: Path, languages: tuple[str, str], positions: int | None = None
) -> PairTokenizer:
    """The :class:`PairTokenizer` of a model's tokenizer for one pair of languages.

    Raises:
        BaseModelError: the tokenizer cannot be read.
        LanguageError: the model lacks a language.
    """
    from transformers import AutoTokenizer

    with clear_errors(name):
        # A fast one would be made of the other files by packages that are not needed otherwise.
        fast = (folder / "tokenizer.json").is_file()
        tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=fast, trust_remote_code=False)
    return PairTokenizer(tokenizer, language_tags(tokenizer, *languages, name), positions)


def commit_of(folder: Path) -> str | None:
    """The commit that the folder of a fetched model is of; None for a folder of one's own."""
    fetched = folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name)
    return folder.name if fetched else None


def content_of(folder: Path) -> str:
    """What tells a model from others of its name: its commit, or a digest of its folder's files."""
    if commit := commit_of(folder):
        return commit
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith(".") and path.suffix.lower() != ".md":
            with path.open("rb") as stream:
                digest.update(f"{path.name}\0{hashlib.file_digest(stream, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()[:_DIGITS]


def called(location: str) -> str:
    """What cards call a model: its id, or its folder's name, which says nothing of this machine."""
    return Path(location).resolve().name if Path(location).is_dir() else location
