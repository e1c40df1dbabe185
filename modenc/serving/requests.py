"""Bodies of requests, and checks of them."""

from __future__ import annotations

from reprlib import repr as short_repr
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from modenc.errors import LanguageError
from modenc.languages import BASE, normalize_code
from modenc.serving.errors import ApiError
from modenc.serving.settings import ServeSettings


def _issue(message: str, value: Any) -> PydanticCustomError:
    # Passed as a value, since braces in a user's text would be read as format fields.
    return PydanticCustomError("modenc", "{message}", {"message": f"{message}, found {short_repr(value)}"})


def _texts(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise _issue("expected a text or a list of texts", value)
    for item in value:
        if isinstance(item, int | list):
            message = (
                "expected texts, found token numbers; languages have tokenizers of their own: send the text "
                "itself (LangChain: check_embedding_ctx_length=False)"
            )
            raise PydanticCustomError("modenc", "{message}", {"message": message})
        if not isinstance(item, str):
            raise _issue("expected a text or a list of texts", item)
    return value


def _codes(value: Any) -> Any:
    listed = value if isinstance(value, list) else [value]
    for code in listed:
        if not (code is None or isinstance(code, str)):
            raise _issue("expected a language code, null, or a list of these", code)
    return value


Texts = Annotated[list[str], BeforeValidator(_texts, json_schema_input_type=str | list[str])]
Codes = Annotated[str | list[str | None] | None, BeforeValidator(_codes)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    lang: Codes = Field(None, description="language code of all texts, or of each; null: identify it")
    align: bool = Field(True, description="false: best within a language, not comparable across")


class EmbeddingRequest(_Request):
    """A request of OpenAI's embeddings API; ``lang``, ``align`` and ``normalize`` are modenc's own."""

    input: Texts = Field(description="a text, or a list of texts")
    model: str = Field(description="the name that /v1/models gives")
    dimensions: int | None = Field(None, ge=1, description="keep the first so many numbers of each vector")
    encoding_format: Literal["float", "base64"] = "float"
    user: str | None = Field(None, description="not looked at")
    normalize: bool = Field(True, description="scale vectors to length 1, as OpenAI's are")


class SimilarityRequest(_Request):
    """A request to compare texts with each other."""

    texts: Texts


def check_texts(texts: list[str], param: str, settings: ServeSettings, most: int | None = None) -> None:
    """Check the texts in a request's field ``param`` against the limits, and against ``most`` texts.

    Raises:
        ApiError: there are none, too many, or one is too long.
    """
    most = min(most or settings.max_texts, settings.max_texts)
    if not 1 <= len(texts) <= most:
        message = f"{param}: expected 1 to {most} texts, found {len(texts)}; send several requests"
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
    codes = lang if isinstance(lang, list) else [lang] * count
    if len(codes) != count:
        message = f"lang: expected one code, or one for each of the {count} texts, found {len(codes)}"
        raise ApiError(400, message, param="lang")
    try:
        for code in set(codes) - {None, BASE}:
            normalize_code(str(code))
    except LanguageError as error:
        raise ApiError(400, f"lang: {error}", param="lang") from error
    return codes
