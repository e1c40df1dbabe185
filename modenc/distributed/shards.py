"""Process numbered shards with Ray Data: tasks read them, actors compute their results, in any order."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import ray
from ray.data import ActorPoolStrategy, DataContext, Datasource, ReadTask
from ray.data.block import BlockMetadata

from modenc.distributed.cluster import Check, Resources, beginning, plain_errors
from modenc.errors import ModencError

Read = Callable[[Sequence[int]], Iterable[Any]]
"""Reads shards: ascending numbers → their contents, in the same order."""
Work = Callable[[Any], Any]
"""Computes the result of a shard from its content."""

# More read tasks mean less to read again after a loss, but each must skip the rows before its own.
_READS_A_WORKER = 4


def map_shards(
    numbers: Sequence[int], read: Read, make_worker: Callable[[], Work], resources: Resources, check: Check
) -> Iterator[tuple[int, Any]]:
    """Process shards on a cluster; those lost with a node are read and processed again.

    Args:
        numbers: shard numbers, ascending.
        read: called in tasks, on parts of ``numbers``.
        make_worker: called once in each actor; the worker that it returns stays in memory for all its shards.
        resources: cores and GPUs of each actor.
        check: called on its node by each actor and reading task before it starts.

    Yields:
        Shard number and result; each number once, in any order.

    Raises:
        ModencError: ``read``, ``make_worker`` or the worker raised it.
        ClusterError: the cluster failed otherwise.
    """
    DataContext.get_current().enable_progress_bars = False
    workers = min(resources.capacity, len(numbers))
    done: set[int] = set()
    begin = beginning(check)
    with plain_errors("shards"):
        shards = ray.data.read_datasource(
            _Shards(numbers, partial(_blocks, read, begin)),
            override_num_blocks=min(len(numbers), _READS_A_WORKER * workers),
            num_cpus=0,  # or actors that take all cores would wait for ever
        )
        results = shards.map_batches(
            _Worker,
            batch_size=1,
            compute=ActorPoolStrategy(min_size=1, initial_size=workers, max_size=workers),
            fn_constructor_args=(begin, make_worker),
            **resources.options(),
        )
        for row in results.iter_rows():
            if (number := int(row["number"])) not in done:
                done.add(number)
                if isinstance(found := pickle.loads(row["content"]), ModencError):
                    raise found
                yield number, found


class _Shards(Datasource):  # type: ignore[misc]
    """Source of shards, read by as many tasks as Ray asks for."""

    def __init__(self, numbers: Sequence[int], blocks: Callable[[Sequence[int]], Iterator[pa.Table]]) -> None:
        super().__init__()
        self.numbers, self.blocks = numbers, blocks

    def estimate_inmemory_data_size(self) -> int | None:
        """Return ``None``: the size is not known."""
        return None

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
        """Make a read task for each range of shard numbers."""
        parts = np.array_split(np.asarray(self.numbers, dtype=np.int64), min(parallelism, len(self.numbers)))
        return [
            ReadTask(partial(self.blocks, part.tolist()), BlockMetadata(len(part), None, None, None))
            for part in parts
        ]


# Errors are returned as results, since Ray Data's own errors hide their cause.
def _blocks(read: Read, begin: Callable[[], None], numbers: Sequence[int]) -> Iterator[pa.Table]:
    try:
        # Ray places reading tasks on nodes without free cores, too, and on those that joined later.
        begin()
        for number, content in zip(numbers, read(numbers), strict=True):
            yield _block(number, content)
    except ModencError as error:
        yield _block(numbers[-1], error)


def _block(number: int, content: Any) -> pa.Table:
    return pa.table({"number": [number], "content": [pickle.dumps(content)]})


class _Worker:
    """Worker in an actor."""

    def __init__(self, begin: Callable[[], None], make_worker: Callable[[], Work]) -> None:
        self.error: ModencError | None = None
        try:
            begin()
            self.work = make_worker()
        except ModencError as error:
            self.error = error

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Process a batch of one shard."""
        result = self.error or pickle.loads(batch["content"][0])
        if not isinstance(result, ModencError):
            try:
                result = self.work(result)
            except ModencError as error:
                result = error
        return {"number": batch["number"], "content": np.array([pickle.dumps(result)], dtype=object)}
