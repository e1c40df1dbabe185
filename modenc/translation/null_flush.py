"""A program that answers null-terminated requests, and is restarted if it crashes or hangs."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress

from modenc.errors import DataError
from modenc.translation.steps import Failure

_CHUNK = 1 << 16
_MOST_SHOWN = 500
# A program may buffer answers, so the first request without an answer is not always the one that failed:
# after a failure, this many requests are sent one at a time.
_SENT_ALONE = 4


class NullFlushProgram:
    """A program that reads requests and writes answers, each ended by a null byte.

    It gets many requests at once, so that the programs of a pipeline run in parallel. If it crashes or hangs
    on a request, only that answer is lost: the program is started again for the others.

    Args:
        command: the program and its arguments.
        seconds: time limit for one answer; for the first it includes the program's start.
        probe: a request that the program answers if it works at all.
    """

    def __init__(self, command: Sequence[str], seconds: float, probe: bytes) -> None:
        self.command = list(command)
        self.seconds = seconds
        self.probe = probe
        self._works = False
        self._stderr = ""

    def ask(self, requests: Sequence[bytes]) -> list[bytes | Failure]:
        """Return the answer to each request, or the reason why there is none.

        Raises:
            DataError: the program does not even answer the probe; the message ends with its error output.
        """
        answers: list[bytes | Failure] = []
        alone = 0
        while rest := requests[len(answers) :]:
            batch = rest[:1] if alone else rest
            received, failure = self._run(batch)
            answers += received
            self._works |= bool(received)
            if not failure:
                alone = max(0, alone - 1)
                continue
            self._check_works()
            if len(batch) == 1:
                answers.append(failure)
            alone = 0 if len(batch) == 1 else _SENT_ALONE
        return answers

    def _run(self, requests: Sequence[bytes]) -> tuple[list[bytes], Failure]:
        """Run the program once; returns its answers, and the failure before the last one, if any."""
        answers: list[bytes] = []
        unread = b""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as errors,
            selectors.DefaultSelector() as ready,  # unlike select, for more than 1,024 open files
        ):
            given.write(b"".join(request + b"\0" for request in requests))
            given.seek(0)
            with subprocess.Popen(
                self.command,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # so that the whole pipeline can be stopped
            ) as process:
                assert process.stdout is not None
                output = process.stdout.fileno()
                ready.register(output, selectors.EVENT_READ)
                deadline = time.monotonic() + self.seconds
                try:
                    while len(answers) < len(requests):
                        if not ready.select(max(0.0, deadline - time.monotonic())):
                            return answers, "timed_out"
                        if not (chunk := os.read(output, _CHUNK)):
                            return answers, "crashed"
                        *complete, unread = (unread + chunk).split(b"\0")
                        answers += complete
                        if complete:
                            deadline = time.monotonic() + self.seconds
                finally:
                    _stop(process)
                    errors.seek(0)
                    self._stderr = errors.read(1 << 20).decode("utf-8", "replace")
        # When it ends, a pipeline writes additional null bytes.
        return answers[: len(requests)], ""

    def _check_works(self) -> None:
        """Check that the program answers the probe, unless it has answered before."""
        if self._works:
            return
        _, failure = self._run([self.probe])
        if failure:
            how = "ended" if failure == "crashed" else f"gave no answer within {self.seconds:g} s"
            output = " ".join(self._stderr.split())[-_MOST_SHOWN:] or "nothing"
            raise DataError(
                f"{' '.join(self.command)}: expected translations, found that it {how} each time; its error "
                f"output: {output}"
            )
        self._works = True


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a program and its children, first by SIGTERM, so that it can remove its temporary files."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(0.2)  # it may be about to end
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
