"""The chain that an engine, its modes or models, and languages make."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from modenc.errors import DataError
from modenc.languages import normalize_code
from modenc.translation.steps import Chain

if TYPE_CHECKING:
    from modenc.translation.ctranslate2_engine import CTranslate2Model
    from modenc.translation.models import Generation
    from modenc.translation.transformers_engine import TransformersModel

# Those that apertium's modes have under one code: nor, hbs, msa.
_UNDER_ONE_CODE = ({"no", "nb", "nn"}, {"sr", "hr", "bs", "cnr"}, {"ms", "zlm"})


def apertium_chain(
    modes: Sequence[str], languages: Sequence[str], folder: Path | None, seconds: float
) -> tuple[Chain, str, str]:
    """Apertium's modes in their order, and the normalised codes of the first and the last language.

    Args:
        modes: one for each step; none: those installed between the languages.
        languages: all that the chain goes through; none: as the modes' names say.
        folder: of a pair that was built.
        seconds: that one sentence may take.

    Raises:
        MissingExtraError: there is no apertium.
        DataError: there is no such folder or mode, the languages are not known, or a mode's name says that
            it is not from or to the language of its place.
    """
    from modenc.translation.apertium import Apertium, installed_modes, languages_of, mode_between

    codes = [normalize_code(code) for code in languages]
    if not modes:
        if not codes:
            raise DataError("expected --mode, or --source and --target (or --chain); found neither")
        installed = installed_modes(folder)
        modes = [mode_between(source, target, installed, folder) for source, target in pairwise(codes)]
    if codes and len(modes) != len(codes) - 1:
        raise DataError(f"expected a --mode for each of the {len(codes) - 1} steps, found {len(modes)}")
    chain = Chain(tuple(Apertium(mode, folder, seconds) for mode in modes))
    _check_modes(modes, codes)
    if not codes:
        first, last = languages_of(modes[0]), languages_of(modes[-1])
        if first is None or last is None:
            raise DataError(
                f"{', '.join(modes)}: not told which languages these are; give --source and --target"
            )
        codes = [first[0], last[1]]
    return chain, codes[0], codes[-1]


def _check_modes(modes: Sequence[str], codes: Sequence[str]) -> None:
    """See that modes follow each other and go through the languages, as far as their names say."""
    from modenc.translation.apertium import languages_of

    ends = [languages_of(mode) for mode in modes]
    for i, (mode, found) in enumerate(zip(modes, ends, strict=True)):
        if found and codes and not all(map(_are_alike, found, codes[i : i + 2])):
            raise DataError(
                f"--mode {mode}: expected a mode from {codes[i]} to {codes[i + 1]}, found one from "
                f"{found[0]} to {found[1]}; change it, or --source and --target (or --chain)"
            )
    for (mode, found), (later, following) in pairwise(zip(modes, ends, strict=True)):
        if found and following and not _are_alike(found[1], following[0]):
            raise DataError(
                f"--mode {later}: expected a mode from {found[1]}, to which {mode} translates, found one "
                f"from {following[0]}; give the modes in the order in which they are applied"
            )


def _are_alike(one: str, other: str) -> bool:
    """Whether a mode may be called by one code and its language by another, whatever their scripts."""
    one, other = (code.partition("_")[0] for code in (one, other))
    return one == other or any({one, other} <= codes for codes in _UNDER_ONE_CODE)


def model_chain(
    engine: str,
    models: Sequence[str],
    languages: Sequence[str],
    tokenizer: str | None = None,
    **search: int,
) -> Chain:
    """Steps of neural models; each model is loaded once, however many steps it has.

    Args:
        engine: ``transformers`` or ``ctranslate2``.
        models: one for all steps, or one each.
        languages: two or more codes; a model's own tag is taken as it is.
        tokenizer: for ``ctranslate2``, where the model's folder has none.
        search: fields of :class:`~modenc.translation.models.Generation`.

    Raises:
        MissingExtraError: a package of the extra is not installed.
        BaseModelError: there is no such model.
        LanguageError: a model lacks a language.
        DataError: the models are neither one nor one for each step.
    """
    from modenc.threads import set_threads
    from modenc.translation.models import Generation

    steps = list(pairwise(languages))
    if len(models) not in (1, len(steps)):
        raise DataError(
            f"expected one --model, or one for each of the {len(steps)} steps; found {len(models)}"
        )
    set_threads(0)
    names = [*models] * len(steps) if len(models) == 1 else models
    loaded = {name: _loaded(engine, name, tokenizer, Generation(**search)) for name in dict.fromkeys(names)}
    return Chain(tuple(loaded[name].step(*pair) for name, pair in zip(names, steps, strict=True)))


def _loaded(
    engine: str, name: str, tokenizer: str | None, generation: Generation
) -> CTranslate2Model | TransformersModel:
    if engine == "ctranslate2":
        from modenc.translation.ctranslate2_engine import CTranslate2Model

        return CTranslate2Model(name, tokenizer, generation)
    from modenc.translation.transformers_engine import TransformersModel

    return TransformersModel(name, generation)
