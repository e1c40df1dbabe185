"""A program that answers each request that ends in a null byte by one, and what to do where it stops."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from modenc.errors import DataError
from modenc.translation.steps import Failure

_AT_ONCE = 1 << 16
# Without one answer ever: the program may not be able to do anything, and each start costs time.
_MOST_STARTS_IN_VAIN = 3
_MOST_SHOWN = 500
# A program may hold back some answers until it sees the end of its input, so that the first request without
# one need not be the one on which it stopped.
_HELD_BACK = 4


class _Stopped(Exception):
    """The program gave no answer to a request."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure: Failure = failure


class AnsweringProgram:
    """A program that reads requests and writes answers, each ended by a null byte.

    It gets many requests at once and the end of its input, so that the programs of a pipeline work side by
    side, and none waits for more. A request on which it crashes or hangs costs its own answer alone: the
    program is started again for those around it.

    Args:
        command: the program and its arguments.
        seconds: for one answer; the program's start counts towards the first.
        probe: a request that any working program answers.
    """

    def __init__(self, command: Sequence[str], seconds: float, probe: bytes) -> None:
        self.command = list(command)
        self.seconds = seconds
        self.probe = probe
        self._has_answered = False
        self._in_vain = 0
        self._last_words = ""

    def ask(self, requests: Sequence[bytes]) -> list[bytes | Failure]:
        """The answer to each request, or why there is none.

        Raises:
            DataError: the program has never answered, not even the probe; the message has its own last
                words.
        """
        answers: list[bytes | Failure] = []
        alone = 0
        while len(answers) < len(requests):
            first = len(answers)
            asked = requests[first : first + 1] if alone else requests[first:]
            try:
                for answer in self._answers(asked):
                    answers.append(answer)
                    self._has_answered = True
                alone = max(0, alone - 1)
            except _Stopped as stopped:
                self._check_hopeless()
                if alone or len(asked) == 1:
                    answers.append(stopped.failure)
                    alone = 0
                else:
                    alone = _HELD_BACK
        return answers

    def _answers(self, requests: Sequence[bytes]) -> Iterator[bytes]:
        """Answers in their order, as they come.

        Raises:
            _Stopped: before the last.
        """
        with self._started(requests) as stream:
            left, unread = len(requests), b""
            deadline = time.monotonic() + self.seconds
            while left:
                if not select.select([stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
                    raise _Stopped("timed_out")
                found = os.read(stream.fileno(), _AT_ONCE)
                if not found:
                    raise _Stopped("crashed")
                *answers, unread = (unread + found).split(b"\0")
                # At its end a pipeline writes more null bytes than it was asked for.
                for answer in answers[:left]:
                    deadline = time.monotonic() + self.seconds
                    left -= 1
                    yield answer

    @contextmanager
    def _started(self, requests: Sequence[bytes]) -> Iterator[IO[bytes]]:
        """The output of the program, which reads the requests; it is ended with the block."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
            given.write(b"".join(request + b"\0" for request in requests))
            given.seek(0)
            process = subprocess.Popen(
                self.command,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                start_new_session=True,  # so that all of a pipeline can be ended
            )
            assert process.stdout is not None
            try:
                yield process.stdout
            finally:
                process.stdout.close()
                _end(process)
                errors.seek(0)
                words = errors.read(1 << 20).decode("utf-8", "replace")
                self._last_words = " ".join(words.split())[-_MOST_SHOWN:]

    def _check_hopeless(self) -> None:
        """Raise a DataError where the program never answers; the first requests may all be at fault."""
        self._in_vain += 1
        if self._has_answered or self._in_vain < _MOST_STARTS_IN_VAIN:
            return
        try:
            for _ in self._answers([self.probe]):
                self._has_answered = True
        except _Stopped as stopped:
            how = "ended" if stopped.failure == "crashed" else f"gave no answer within {self.seconds:g} s"
            raise DataError(
                f"{' '.join(self.command)}: expected translations, found that it {how} each time; it said: "
                f"{self._last_words or 'nothing'}"
            ) from stopped


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program and all that it started; first so that it can remove its temporary files."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(0.2)  # it has read all and written all
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, sent)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
