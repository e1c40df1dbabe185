"""Mining as LASER publishes it, in plain NumPy, and as a short script with FAISS: what ours is compared with.

Both are written from the papers (Artetxe and Schwenk, 2019; BUCC's rules) and share no code with modenc.
"""

from __future__ import annotations

import faiss
import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Scored = list[tuple[float, int, int]]
"""Score, left row and right row, from the best score down."""

K = 4
_AT_ONCE = 1000


def laser(left: Vectors, right: Vectors) -> Scored:
    """Ratio margin, k = 4, the best of both directions (``--retrieval max``), each sentence once."""
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (left, right))
    near_x, near_y = _neighbors(x, y), _neighbors(y, x)
    return _matched(near_x, near_y)


def plain_faiss(left: Vectors, right: Vectors) -> Scored:
    """As above, with FAISS's exact index, all in memory."""
    x, y = left.copy(), right.copy()
    near = []
    for queries, targets in ((x, y), (y, x)):
        faiss.normalize_L2(queries)
        index = faiss.IndexFlatIP(targets.shape[1])
        faiss.normalize_L2(targets)
        index.add(targets)
        near.append(index.search(queries, K))
    return _matched(near[0], near[1])


def best_f1(scored: Scored, gold: set[tuple[int, int]]) -> tuple[float, float]:
    """Return the best F1 in percent, and the threshold, which BUCC puts between a score and the next."""
    best, threshold, hits = 0.0, float("inf"), 0
    for place, (score, row, match) in enumerate(scored):
        hits += (row, match) in gold
        if (f1 := 200 * hits / (place + 1 + len(gold))) > best:
            following = scored[place + 1][0] if place + 1 < len(scored) else score
            best, threshold = f1, (score + following) / 2
    return best, threshold


def pair_scores(pairs: set[tuple[int, int]], gold: set[tuple[int, int]]) -> dict[str, float]:
    """Precision, recall and F1 in percent."""
    hits = len(pairs & gold)
    precision, recall = 100 * hits / max(len(pairs), 1), 100 * hits / len(gold)
    return {"precision": precision, "recall": recall, "f1": 200 * hits / (len(pairs) + len(gold))}


def _neighbors(queries: Vectors, targets: Vectors) -> tuple[Vectors, npt.NDArray[np.int64]]:
    cosines, rows = [], []
    for start in range(0, len(queries), _AT_ONCE):
        block = queries[start : start + _AT_ONCE] @ targets.T
        near = np.argpartition(-block, K, axis=1)[:, :K]
        rows.append(near)
        cosines.append(np.take_along_axis(block, near, axis=1))
    return np.concatenate(cosines), np.concatenate(rows)


def _matched(near_x: tuple[Vectors, Vectors], near_y: tuple[Vectors, Vectors]) -> Scored:
    mean_x, mean_y = near_x[0].mean(axis=1), near_y[0].mean(axis=1)
    found = set[tuple[float, int, int]]()
    for i in range(len(mean_x)):
        scores = near_x[0][i] / ((mean_x[i] + mean_y[near_x[1][i]]) / 2)
        found.add((float(scores.max()), i, int(near_x[1][i][scores.argmax()])))
    for j in range(len(mean_y)):
        scores = near_y[0][j] / ((mean_y[j] + mean_x[near_y[1][j]]) / 2)
        found.add((float(scores.max()), int(near_y[1][j][scores.argmax()]), j))
    taken_x, taken_y, matched = set[int](), set[int](), []
    for score, i, j in sorted(found, reverse=True):
        if i not in taken_x and j not in taken_y:
            taken_x.add(i)
            taken_y.add(j)
            matched.append((score, i, j))
    return matched
