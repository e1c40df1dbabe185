"""Bodies of requests, and checks of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

MAX_TEXTS = 2048
"""Most texts of a request, as in OpenAI's API."""
MAX_COMPARED = 100
"""Most texts of a comparison, since its response grows with their square."""


def _texts(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            "expected a text or a list of texts, found something else; token numbers cannot be read, since "
            "languages have tokenizers of their own (LangChain: check_embedding_ctx_length=False)"
        )
    return texts


Texts = Annotated[list[str], BeforeValidator(_texts, json_schema_input_type=str | list[str])]


class TextsRequest(BaseModel):
    """The fields that all requests with texts have; ``lang``, ``align`` and ``normalize`` are modenc's own.

    Other fields are refused: ignored, a misspelled one would give other vectors than asked for.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    dimensions: int | None = Field(None, ge=1, description="keep the first so many numbers of each vector")
    encoding_format: Literal["float", "base64"] = "float"
    input_type: Literal["query", "document"] | None = Field(None, description="prompt before each text")
    normalize: bool = Field(True, description="scale vectors to length 1, as OpenAI's are")
    lang: str | list[str | None] | None = Field(
        None, description="language code of all texts, or of each; null: identify it"
    )
    align: bool = Field(True, description="false: best within a language, not comparable across")
    user: str | None = Field(None, description="OpenAI's name for who asks; ignored")

    @model_validator(mode="before")
    @classmethod
    def _given(cls, body: Any) -> Any:
        """Leave out fields that are null."""
        if not isinstance(body, dict):
            return body
        return {name: value for name, value in body.items() if value is not None}


class EmbeddingRequest(TextsRequest):
    """A request of OpenAI's embeddings API."""

    input: Texts = Field(min_length=1, max_length=MAX_TEXTS, description="a text, or a list of texts")
    model: str = Field(description="the name that /v1/models gives")


class SimilarityRequest(TextsRequest):
    """A request to compare texts with each other."""

    texts: Texts = Field(min_length=1, max_length=MAX_COMPARED)
