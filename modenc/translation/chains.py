"""Construction of chains from an engine, its modes or models, and languages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from modenc.errors import DataError
from modenc.languages import normalize_code
from modenc.translation.apertium import Apertium, languages_of, mode_between
from modenc.translation.steps import Chain

# Languages that share a code in Apertium's modes: nor, hbs, msa.
_SHARED_CODES = ({"no", "nb", "nn"}, {"sr", "hr", "bs", "cnr"}, {"ms", "zlm"})


def apertium_chain(
    modes: Sequence[str], languages: Sequence[str], folder: Path | None, seconds: float
) -> tuple[Chain, str, str]:
    """Make a chain of Apertium's modes; returns it with the normalized codes of its first and last language.

    Args:
        modes: a mode for each step; if empty, the installed modes between the languages.
        languages: all languages of the chain; if empty, the languages in the modes' names.
        folder: folder of a language pair that was built from source.
        seconds: time limit for one sentence.

    Raises:
        MissingExtraError: Apertium is not installed.
        DataError: there is no such folder or mode, the languages are not known, or a mode is for other
            languages.
    """
    codes = [normalize_code(code) for code in languages]
    if not modes:
        if not codes:
            raise DataError("expected --mode, or --source and --target (or --chain); found neither")
        modes = [mode_between(source, target, folder) for source, target in pairwise(codes)]
    if codes and len(modes) != len(codes) - 1:
        raise DataError(f"expected a --mode for each of the {len(codes) - 1} steps, found {len(modes)}")
    chain = Chain(tuple(Apertium(mode, folder, seconds) for mode in modes))
    named = [languages_of(mode) for mode in modes]
    if not codes:
        known = [pair for pair in named if pair is not None]
        if len(known) < len(named):
            raise DataError(
                f"{', '.join(modes)}: expected two languages in each name; give --source and --target "
                "(or --chain)"
            )
        codes = [known[0][0], *(target for _, target in known)]
    for mode, pair, expected in zip(modes, named, pairwise(codes), strict=True):
        if pair and not all(map(_may_be_same, pair, expected)):
            raise DataError(
                f"--mode {mode}: expected a mode from {expected[0]} to {expected[1]}, found one from "
                f"{pair[0]} to {pair[1]}; change it, the order, or --source and --target (or --chain)"
            )
    return chain, codes[0], codes[-1]


def _may_be_same(one: str, other: str) -> bool:
    """Say whether two codes, one of them in a mode's name, may mean the same language."""
    return one == other or any({one, other} <= codes for codes in _SHARED_CODES)


def model_chain(
    engine: str,
    models: Sequence[str],
    languages: Sequence[str],
    tokenizer: str | None = None,
    **search: Any,
) -> Chain:
    """Make a chain of neural models; each model is loaded once, also if it is used in several steps.

    Args:
        engine: ``transformers`` or ``ctranslate2``.
        models: one for all steps, or one for each.
        languages: two or more codes, or tags of the models.
        tokenizer: tokenizer for ``ctranslate2``, if the model's folder has none.
        **search: ``beams`` and ``batch_size`` of :class:`~modenc.translation.neural.NeuralStep`.

    Raises:
        MissingExtraError: a package of the extra is not installed.
        BaseModelError: there is no such model.
        LanguageError: a model lacks a language.
        DataError: the number of models is wrong.
    """
    from modenc.translation.neural import CTranslate2Model, NeuralStep, TransformersModel

    pairs = list(pairwise(languages))
    if len(models) not in (1, len(pairs)):
        raise DataError(
            f"expected one --model, or one for each of the {len(pairs)} steps; found {len(models)}"
        )
    loaded = {
        name: TransformersModel(name) if engine == "transformers" else CTranslate2Model(name, tokenizer)
        for name in dict.fromkeys(models)
    }
    names = models if len(models) == len(pairs) else [*models] * len(pairs)
    steps = (NeuralStep(loaded[name], *pair, **search) for name, pair in zip(names, pairs, strict=True))
    return Chain(tuple(steps))
