"""Embeddings over HTTP, as OpenAI's embeddings API has them. Needs the extra ``serve``."""

from modenc.errors import require_extra

require_extra("serve", "fastapi", "uvicorn", "prometheus_client", "orjson")
