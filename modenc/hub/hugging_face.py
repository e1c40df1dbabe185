"""Requests to Hugging Face, with errors turned into those of modenc."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.errors import HubError, StorageError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_SECONDS = 10.0
_LATER = (408, 429, *range(500, 600))
_ACCESS = "give token=, set HF_TOKEN, or log in (hf auth login)"


class UnreachableError(HubError):
    """Raised if Hugging Face cannot be reached, or the network may not be used."""


@dataclass(frozen=True)
class Repository:
    """A model repository on Hugging Face.

    Raises:
        HubError: ``name`` is no id, or ``subfolder`` leads out of the repository.
    """

    name: str
    """Id: ``organization/name``."""
    token: bool | str | None = field(default=None, repr=False)
    """Access token, as in huggingface_hub."""
    local_files_only: bool = False
    """Whether to use the cache only, not the network."""
    subfolder: str = ""
    """Folder of the hub in the repository; file names are relative to it."""

    def __post_init__(self) -> None:
        if not self.is_id(self.name):
            raise HubError(
                "expected the id of a repository on Hugging Face (organization/name), found "
                f"{self.name!r:.200}; give its id"
            )
        parts = self.subfolder.split("/")
        if self.subfolder and {"", ".", ".."}.intersection(parts):
            raise HubError(
                f"{self.name}: expected a path inside the repository in its modules.json, found "
                f"{self.subfolder!r:.200}, which leads out of it; do not use this hub, and tell its publisher"
            )

    def __str__(self) -> str:
        return self.name

    @staticmethod
    def is_id(name: Any) -> bool:
        """Check whether a name has the form of an id."""
        return isinstance(name, str) and _ID.fullmatch(name) is not None

    @property
    def api(self) -> HfApi:
        """Client for requests."""
        from huggingface_hub import HfApi

        return HfApi(token=self.token)

    @property
    def _prefix(self) -> str:
        return f"{self.subfolder}/" if self.subfolder else ""

    def listing(self, revision: str | None) -> tuple[str, dict[str, int]]:
        """Return the present commit of a revision, and the size of each of its files in bytes.

        Raises:
            UnreachableError: Hugging Face cannot be reached.
            HubError: there is no such repository or revision, or the token gives no access.
        """
        with self.errors(revision):
            if self.local_files_only:
                raise UnreachableError(f"{self.name}: {_not_cached('local_files_only is set', revision)}")
            # This request has a timeout; the first one of a download has none.
            info = self.api.model_info(self.name, revision=revision, files_metadata=True, timeout=_SECONDS)
            return str(info.sha), {
                file.rfilename.removeprefix(self._prefix): int(file.size or 0)
                for file in info.siblings or ()
                if file.rfilename.startswith(self._prefix)
            }

    def fetch(self, commit: str, names: Iterable[str], into: Path) -> Path:
        """Download files of a commit into an empty folder; returns the hub's folder in that.

        Raises:
            HubError: they cannot be downloaded.
        """
        from huggingface_hub import snapshot_download

        with self.errors(commit):
            snapshot_download(
                self.name,
                revision=commit,
                local_dir=into,
                allow_patterns=[self._prefix + name for name in names],
                token=self.token,
            )
        return into / self.subfolder

    @contextmanager
    def errors(self, revision: str | None = None) -> Iterator[None]:
        """Turn errors of huggingface_hub and its dependencies in the block into those of modenc.

        Raises:
            HubError: such an error was raised.
        """
        try:
            yield
        except (HubError, StorageError):
            raise
        except Exception as error:  # several libraries raise many types
            network = isinstance(error, ConnectionError | TimeoutError)
            if isinstance(error, OSError) and type(error).__module__ == "builtins" and not network:
                raise  # an error of the disk
            raise self._translated(error, revision) from error

    def _translated(self, error: Exception, revision: str | None) -> HubError:
        from huggingface_hub import errors

        status = getattr(getattr(error, "response", None), "status_code", None)
        at = revision or "main"
        if isinstance(error, errors.OfflineModeIsEnabled):
            return UnreachableError(f"{self.name}: {_not_cached('HF_HUB_OFFLINE is set', revision)}")
        if isinstance(error, errors.RevisionNotFoundError):
            return HubError(
                f"{self.name}: expected the commit, branch or tag {at!r:.60}, found none; its history may "
                "have been rewritten. Give another revision, or none for the main branch"
            )
        if isinstance(error, errors.RepositoryNotFoundError) or status == 401:
            return HubError(
                f"{self.name}: expected a repository on Hugging Face, found none that this user may see. "
                f"Check the id (or the path, if a folder was meant); for a private or gated one, {_ACCESS}"
            )
        if status == 403:
            return HubError(
                f"{self.name}: expected a token with permission for this, found one without; make one with "
                f"the permission, and {_ACCESS}"
            )
        if isinstance(error, errors.EntryNotFoundError) and status == 404:
            return HubError(
                f"{self.name}: a file of {at:.40} was removed in the meantime ({_line(error)}); try again"
            )
        if status == 412:
            return HubError(
                f"{self.name}: another user changed {at!r:.60} in the meantime, and nothing was uploaded; "
                "run the same command again"
            )
        if (status or 500) not in _LATER or (
            isinstance(error, ValueError) and not isinstance(error, OSError)
        ):
            return HubError(f"{self.name}: Hugging Face refuses this: {_line(error)}")
        return UnreachableError(
            f"{self.name}: expected files of {at!r:.60} in this machine's cache or from Hugging Face, which "
            f"cannot be reached or gives an invalid answer ({_line(error)}); try again later"
        )


def _not_cached(reason: str, revision: str | None) -> str:
    """Return the message for files that are not in the cache if the network may not be used."""
    return (
        f"expected the files of {revision or 'main'!r:.60} in this machine's cache, found some missing, and "
        f"{reason}; open the hub and use its languages once with a network, or pull it (modenc hub pull)"
    )


def _line(error: Exception) -> str:
    """Return the first non-empty line of an error's message."""
    lines = (line.strip() for line in str(error).splitlines())
    return f"{type(error).__name__}: {next(filter(None, lines), '')}"[:300]
