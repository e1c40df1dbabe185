"""Mining of translations in unaligned texts. Needs the extra ``eval``."""

from modenc.extras import require_extra

require_extra("eval", "faiss", "scipy")

from modenc.mining.pairs import Mined, MinedPair, mine  # noqa: E402
from modenc.mining.search import SearchSettings  # noqa: E402

__all__ = ["Mined", "MinedPair", "SearchSettings", "mine"]
