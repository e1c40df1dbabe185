"""Bodies of requests, and checks of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from reprlib import repr as short_repr
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from modenc.errors import LanguageError
from modenc.languages import BASE, is_undetermined, normalize_code
from modenc.serving.errors import ApiError
from modenc.serving.settings import ServeSettings
from modenc.suggest import closest_match

_MOST_FIELDS = 100
_INPUT_TYPES: dict[str, str | None] = {
    **dict.fromkeys(("query", "search_query", "retrieval_query"), "query"),
    **dict.fromkeys(("question_answering", "fact_verification"), "query"),
    **dict.fromkeys(("document", "passage", "search_document"), "document"),
    **dict.fromkeys(("retrieval_document", "retrieval_passage"), "document"),
    **dict.fromkeys(("classification", "clustering", "separation", "text_matching", "semantic_similarity")),
}
"""Plain ``input_type`` of Cohere, Google, Jina, NVIDIA or Voyage → name of the prompt; None: the default."""
# Fields that choose a prompt, and fields whose only value here is float.
_PROMPT = ("input_type", "task")
_NUMBER_TYPES = ("embedding_type", "embedding_types", "output_dtype", "embed_dtype", "dtype")
_OTHER_NAMES = {
    **dict.fromkeys(("dim", "dims", "embedding_dim", "matryoshka_dim", "truncate_dim"), "dimensions"),
    **dict.fromkeys(("output_dimension", "output_dimensionality"), "dimensions"),
    **dict.fromkeys(("instruction", "prompt", "prompt_name", "task_type"), "input_type"),
    **dict.fromkeys(("lang_code", "language", "language_code", "locale", "source_lang"), "lang"),
    **dict.fromkeys(("normalization", "normalize_embeddings"), "normalize"),
    "extra_body": "the fields in it, beside input and model",
}
"""Name of a field in other interfaces → what it is here, where the spelling does not suggest it."""


def _issue(message: str, value: Any) -> PydanticCustomError:
    found = "null" if value is None else short_repr(value)
    # Passed as a value, since braces in a user's text would be read as format fields.
    return PydanticCustomError("modenc", "{message}", {"message": f"{message}, found {found}"})


def _texts(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise _issue("expected a text or a list of texts", value)
    for item in value:
        if _is_number(item) or (isinstance(item, list) and item and all(map(_is_number, item))):
            message = (
                "expected texts, found token numbers; languages have tokenizers of their own: send the text "
                "itself (LangChain: check_embedding_ctx_length=False)"
            )
            raise PydanticCustomError("modenc", "{message}", {"message": message})
        if not isinstance(item, str):
            raise _issue("expected a text or a list of texts", item)
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    """Return a word of an interface as here: ``" RETRIEVAL.query "`` as ``"retrieval_query"``."""
    return re.sub(r"[-.\s]+", "_", value.strip().lower()) if isinstance(value, str) else value


def _prompt_name(value: Any) -> Any:
    if not isinstance(value, str) or _plain(value) not in _INPUT_TYPES:
        raise _issue(f"expected null or one of {', '.join(_INPUT_TYPES)}", value)
    return _INPUT_TYPES[_plain(value)]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _codes(value: Any) -> Any:
    for code in _listed(value):
        if not (code is None or isinstance(code, str)):
            raise _issue("expected a language code, null, or a list of these", code)
    return value


Texts = Annotated[list[str], BeforeValidator(_texts, json_schema_input_type=str | list[str])]
Codes = Annotated[str | list[str | None] | None, BeforeValidator(_codes)]
PromptName = Annotated[str | None, BeforeValidator(_prompt_name)]


def _check_names(given: Mapping[str, Any], known: Mapping[str, FieldInfo]) -> None:
    """Refuse fields whose names mean a known one: ignored, they would give other vectors than asked for.

    Raises:
        ApiError: there is one.
    """
    # Required fields that are given as well are not misspelled.
    missed = [name for name, field in known.items() if not (name in given and field.is_required())]
    for name, value in given.items():
        if name in known:
            continue
        if name in _NUMBER_TYPES:
            if all(_plain(kind) in ("float", "float32") for kind in _listed(value)):
                continue
            message = f"expected float, found {short_repr(value)}; for base64, set encoding_format instead"
            raise ApiError(400, f"{name}: {message}", param=name)
        # One letter makes another word of a short name, such as "land" of "lang".
        if near := closest_match(name, missed, 0.8) or closest_match(name, _OTHER_NAMES, 0.92):
            message = f"unknown field; did you mean {_OTHER_NAMES.get(near, near)}? If not, leave it out"
            raise ApiError(400, f"{name}: {message}", param=name)


class TextsRequest(BaseModel):
    """The fields that all requests with texts have; ``lang``, ``align`` and ``normalize`` are modenc's own.

    Other fields are ignored, unless their names are like those of these fields.
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    dimensions: int | None = Field(None, ge=1, description="keep the first so many numbers of each vector")
    encoding_format: Annotated[Literal["float", "base64"], BeforeValidator(_plain)] = "float"
    input_type: PromptName = Field(
        None,
        validation_alias=AliasChoices(*_PROMPT),
        description=f"what the texts are; chooses their prompt: {', '.join(_INPUT_TYPES)}",
    )
    normalize: bool = Field(True, description="scale vectors to length 1, as OpenAI's are")
    lang: Codes = Field(None, description="language code of all texts, or of each; null: identify it")
    align: bool = Field(True, description="false: best within a language, not comparable across")

    @model_validator(mode="before")
    @classmethod
    def _given(cls, body: Any) -> Any:
        """Leave out fields that are not given, and check the names of the others."""
        if not isinstance(body, dict):
            return body
        if len(body) > _MOST_FIELDS:  # each is compared with the known ones, and named if it is refused
            raise ApiError(400, f"body: expected at most {_MOST_FIELDS} fields, found {len(body)}")
        blank = [name for name in _PROMPT if _plain(body.get(name)) == ""]
        given = {name: value for name, value in body.items() if value is not None and name not in blank}
        _check_names(given, cls.model_fields)
        words = [str(_plain(given[name])) for name in _PROMPT if name in given]
        if len({_INPUT_TYPES.get(word, word) for word in words}) > 1:
            asked, task = (short_repr(given[name]) for name in _PROMPT)
            message = f"task: expected what input_type says ({asked}), found {task}; leave one of them out"
            raise ApiError(400, message, param="task")
        return given


class EmbeddingRequest(TextsRequest):
    """A request of OpenAI's embeddings API."""

    input: Texts = Field(description="a text, or a list of texts")
    model: str = Field(description="the name that /v1/models gives")


class SimilarityRequest(TextsRequest):
    """A request to compare texts with each other."""

    texts: Texts


def check_texts(texts: list[str], param: str, settings: ServeSettings, most: int | None = None) -> None:
    """Check the texts in a request's field ``param`` against the limits, and against ``most`` texts.

    Raises:
        ApiError: there are none, too many, or one is too long.
    """
    most = min(most or settings.max_texts, settings.max_texts)
    if not 1 <= len(texts) <= most:
        message = f"{param}: expected 1 to {most} texts, found {len(texts)}"
        message += "; send several requests" if texts else ""
        raise ApiError(400, message, param=param)
    for position, text in enumerate(texts):
        if len(text) > settings.max_characters:
            raise ApiError(
                400,
                f"{param}.{position}: expected at most {settings.max_characters} characters, found "
                f"{len(text)}; split the text",
                param=param,
            )


def codes_of(lang: str | list[str | None] | None, count: int) -> list[str | None]:
    """Return a code for each of ``count`` texts, None if its language is to be identified.

    Raises:
        ApiError: there are more or fewer, or one names no language.
    """
    listed = lang if isinstance(lang, list) else [lang] * count
    codes = [None if code is None or is_undetermined(code) else code for code in listed]
    if len(codes) != count:
        message = f"lang: expected one code, or one for each of the {count} texts, found {len(codes)}"
        raise ApiError(400, message, param="lang")
    try:
        for code in set(codes) - {None, BASE}:
            normalize_code(str(code))
    except LanguageError as error:
        raise ApiError(400, f"lang: {error}", param="lang") from error
    return codes
