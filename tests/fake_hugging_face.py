"""Hugging Face in memory, in place of what modenc calls of ``huggingface_hub``, with its real errors."""

from __future__ import annotations

import fnmatch
import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
from huggingface_hub import errors

Files = dict[str, bytes]
TOKEN = "hf_token"
"""The token that opens private repositories."""


class FakeHuggingFace:
    def __init__(self) -> None:
        self.heads: dict[tuple[str, str], str] = {}
        self.commits: dict[tuple[str, str], Files] = {}
        self.messages: list[str] = []
        self.private: dict[str, bool] = {}
        self.asked = 0
        self.fetched: list[str] = []
        self.broken: dict[str, BaseException] = {}
        """Name of a file, ``commit``, or ``*`` for all requests → how it fails."""

    def forget(self) -> None:
        self.asked, self.fetched = 0, []

    def files(self, name: str, revision: str | None = None) -> Files:
        """The files of a revision, which tests may change."""
        return self.commits[name, self._commit(name, revision)]

    def put(self, name: str, files: Files, branch: str = "main", message: str = "") -> str:
        """Make a commit."""
        self.private.setdefault(name, False)
        commit = hashlib.sha1(repr((branch, files, len(self.messages))).encode()).hexdigest()
        self.heads[name, branch], self.commits[name, commit] = commit, files
        self.messages.append(message)
        return commit

    # What modenc calls.

    def api(self, token: Any = None) -> Any:
        return SimpleNamespace(
            model_info=lambda name, **options: self._info(name, token, **options),
            create_repo=self._create_repo,
            create_branch=self._create_branch,
            create_commit=self._create_commit,
        )

    def download(
        self, name: str, *, revision: str, local_dir: Path, allow_patterns: list[str], token: Any = None
    ) -> None:
        self._ask(name, token)
        for path, content in sorted(self.files(name, revision).items()):
            target = Path(local_dir, path)
            if target.exists() or not any(fnmatch.fnmatch(path, pattern) for pattern in allow_patterns):
                continue
            if (error := self.broken.get(Path(path).name)) is not None:
                raise error
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            self.fetched.append(path)

    def download_file(
        self, cache: Path, name: str, filename: str, subfolder: str, revision: str | None, **_: Any
    ) -> str:
        """``hf_hub_download``, as sentence-transformers calls it."""
        path, commit = Path(subfolder, filename).as_posix(), self._commit(name, revision)
        if path not in self.files(name, commit):
            raise refusal(errors.EntryNotFoundError, 404, "Entry Not Found")
        self.download(name, revision=commit, local_dir=cache / commit, allow_patterns=[path])
        return str(cache / commit / path)

    def _ask(self, name: str, token: Any) -> None:
        self.asked += 1
        if (error := self.broken.get("*")) is not None:
            raise error
        if self.private.get(name, True) and (name not in self.private or token != TOKEN):
            raise refusal(errors.RepositoryNotFoundError, 401, "Repository Not Found")

    def _commit(self, name: str, revision: str | None) -> str:
        commit = self.heads.get((name, revision or "main"), revision)
        if (name, commit) not in self.commits:
            raise refusal(errors.RevisionNotFoundError, 404, "Revision Not Found")
        return str(commit)

    def _info(self, name: str, token: Any, *, revision: str | None = None, **_: Any) -> Any:
        self._ask(name, token)
        files = self.files(name, revision)
        siblings = [SimpleNamespace(rfilename=path, size=len(content)) for path, content in files.items()]
        commit = self._commit(name, revision)
        return SimpleNamespace(sha=commit, private=self.private[name], siblings=siblings)

    def _create_repo(self, name: str, *, private: bool | None, exist_ok: bool) -> None:
        if name not in self.private:
            self.put(name, {".gitattributes": b""}, message="initial commit")
            self.private[name] = bool(private)

    def _create_branch(self, name: str, *, branch: str, exist_ok: bool) -> None:
        self.heads.setdefault((name, branch), self.heads[name, "main"])

    def _create_commit(
        self,
        name: str,
        operations: list[Any],
        *,
        commit_message: str,
        revision: str | None,
        parent_commit: str,
    ) -> Any:
        if (error := self.broken.get("commit")) is not None:
            raise error
        assert self._commit(name, revision) == parent_commit
        files = dict(self.files(name, revision))
        for operation in operations:
            if isinstance(operation, huggingface_hub.CommitOperationDelete):
                del files[operation.path_in_repo]
            else:
                files[operation.path_in_repo] = Path(operation.path_or_fileobj).read_bytes()
        commit = self.put(name, files, revision or "main", commit_message)
        return SimpleNamespace(commit_url=f"https://huggingface.co/{name}/commit/{commit}")


def refusal(kind: Any, status: int, message: str) -> Exception:
    """An error as the client raises it."""
    response: Any = SimpleNamespace(status_code=status, headers={}, request=None, text=message)
    return kind(message, response=response)
