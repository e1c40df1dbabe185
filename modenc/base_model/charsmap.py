"""Writing of a SentencePiece character map: the double-array trie that ``normalizers.Precompiled`` reads.

Format (Yata et al., "A compact static double-array keeping character codes", 2007, in the layout of
darts-clone): ``u32`` bytes of the trie, the trie's ``u32`` units, then the NUL-terminated UTF-8
replacements that leaf values index. A unit holds label (bits 0-7), has-leaf (8) and the offset to
the base of its children (10-30); a leaf unit has bit 31 set and a replacement's position below it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

_HAS_LEAF = 1 << 8
_IS_VALUE = 1 << 31
_OFFSET_LIMIT = 1 << 21


@dataclass
class _Node:
    children: dict[int, _Node] = field(default_factory=dict)
    value: int | None = None


@dataclass
class _DoubleArray:
    units: list[int] = field(default_factory=lambda: [0])
    used: set[int] = field(default_factory=lambda: {0})
    bases: set[int] = field(default_factory=set)
    free_from: int = 1

    def place(self, node: _Node, position: int) -> None:
        """Place the children of the node at ``position``, and make its unit point at them."""
        labels = ([0] if node.value is not None else []) + sorted(node.children)
        base = self._find_base(labels)
        offset = position ^ base
        if offset >= _OFFSET_LIMIT:
            raise ValueError(f"character map too large: offset {offset} does not fit {_OFFSET_LIMIT}")
        self.bases.add(base)
        self.used.update(base ^ label for label in labels)
        self._grow(max(base ^ label for label in labels))
        self.units[position] |= offset << 10
        if node.value is not None:
            self.units[position] |= _HAS_LEAF
            self.units[base] = _IS_VALUE | node.value
        for label, child in sorted(node.children.items()):
            self.units[base ^ label] |= label
            self.place(child, base ^ label)

    def _find_base(self, labels: list[int]) -> int:
        while self.free_from in self.used:
            self.free_from += 1
        base = max(self.free_from ^ labels[0], 1)
        while base in self.bases or any((base ^ label) in self.used for label in labels):
            base += 1
        return base

    def _grow(self, position: int) -> None:
        # A reader may access any label at a base, so whole blocks of 256 units must exist.
        wanted = (position | 0xFF) + 1
        self.units.extend([0] * (wanted - len(self.units)))


def build_charsmap(replacements: Mapping[str, str]) -> bytes:
    """Serialize character → replacement (may be empty) for ``tokenizers.normalizers.Precompiled``."""
    root = _Node()
    blob = bytearray()
    positions: dict[str, int] = {}
    for source, target in replacements.items():
        if target not in positions:
            positions[target] = len(blob)
            blob += target.encode() + b"\0"
        node = root
        for byte in source.encode("utf-8", "surrogatepass"):
            node = node.children.setdefault(byte, _Node())
        node.value = positions[target]
    trie = _DoubleArray()
    trie.place(root, 0)
    packed = struct.pack(f"<{len(trie.units)}I", *trie.units)
    return struct.pack("<I", len(packed)) + packed + bytes(blob)
