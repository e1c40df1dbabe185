"""Bodies of requests, and checks of them."""

from __future__ import annotations

from reprlib import repr as short_repr
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from modenc.errors import LanguageError
from modenc.languages import BASE, is_undetermined, normalize_code
from modenc.serving.errors import ApiError
from modenc.serving.settings import ServeSettings

_INPUT_TYPES: dict[str, str | None] = {
    **dict.fromkeys(("query", "search_query"), "query"),
    **dict.fromkeys(("document", "passage", "search_document"), "document"),
    **dict.fromkeys(("classification", "clustering")),
}
"""``input_type`` of Cohere, NVIDIA or Voyage → name of the prompt; None: the default."""


def _issue(message: str, value: Any) -> PydanticCustomError:
    # Passed as a value, since braces in a user's text would be read as format fields.
    found = "null" if value is None else short_repr(value)
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


def _prompt_name(value: Any) -> Any:
    if not isinstance(value, str) or value not in _INPUT_TYPES:
        raise _issue(f"expected null or one of {', '.join(_INPUT_TYPES)}", value)
    return _INPUT_TYPES[value]


def _codes(value: Any) -> Any:
    for code in value if isinstance(value, list) else [value]:
        if not (code is None or isinstance(code, str)):
            raise _issue("expected a language code, null, or a list of these", code)
    return value


Texts = Annotated[list[str], BeforeValidator(_texts, json_schema_input_type=str | list[str])]
Codes = Annotated[str | list[str | None] | None, BeforeValidator(_codes)]
PromptName = Annotated[str | None, BeforeValidator(_prompt_name)]


class TextsRequest(BaseModel):
    """The fields that all requests with texts have; ``lang``, ``align`` and ``normalize`` are modenc's own.

    Other fields are refused: ignored, a misspelled one would give other vectors than asked for.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    dimensions: int | None = Field(None, ge=1, description="keep the first so many numbers of each vector")
    encoding_format: Literal["float", "base64"] = "float"
    input_type: PromptName = Field(
        None, description=f"what the texts are; chooses their prompt: {', '.join(_INPUT_TYPES)}"
    )
    normalize: bool = Field(True, description="scale vectors to length 1, as OpenAI's are")
    lang: Codes = Field(None, description="language code of all texts, or of each; null: identify it")
    align: bool = Field(True, description="false: best within a language, not comparable across")
    user: str | None = Field(None, description="OpenAI's name for who asks; ignored")

    @model_validator(mode="before")
    @classmethod
    def _given(cls, body: Any) -> Any:
        """Leave out fields that are not given."""
        if not isinstance(body, dict):
            return body
        return {name: value for name, value in body.items() if value is not None}


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
