"""Upload of a hub to Hugging Face: languages, cards and the page in one commit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modenc.errors import HubError
from modenc.hub.card import Card
from modenc.hub.layout import HUB_FILE, README_FILE, HubInfo, read_text
from modenc.hub.page import hub_page
from modenc.hub.remote import REPOSITORY_ID, RemoteHub, hugging_face_errors
from modenc.hub.store import Hub
from modenc.languages import listed_codes, normalize_code

if TYPE_CHECKING:
    from huggingface_hub import HfApi

# Other files that a repository may have; any more could be a model, which a hub would hide.
_OTHER_FILES = frozenset({README_FILE, "LICENSE", "LICENSE.md", "LICENSE.txt"})


def push_hub(
    hub: Hub,
    repo: str,
    *,
    languages: str | Iterable[str] | None = None,
    info: HubInfo | None = None,
    private: bool | None = None,
    revision: str | None = None,
    message: str | None = None,
    token: bool | str | None = None,
) -> str:
    """Upload a hub, or some of its languages, in one commit; makes the repository if there is none.

    Other languages in the repository stay there. ``README.md`` is the one in the hub's folder, or else
    written from all cards.

    Args:
        hub: the hub, which is checked first.
        repo: id of the repository (``organization/name``).
        languages: codes; ``None``: all.
        info: content for ``hub.json`` instead of the hub's own.
        private: whether a new repository is private.
        revision: branch, made if there is none; ``None``: the main branch.
        message: message of the commit.
        token: as in huggingface_hub.

    Returns:
        URL of the commit.

    Raises:
        HubError: the hub is damaged or lacks a language, the repository is another kind of hub or may not be
            written; nothing was uploaded.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    if not REPOSITORY_ID.fullmatch(repo):
        raise HubError(f"expected a repository's id (organization/name), found {repo!r:.200}; give its id")
    api, info = HfApi(token=token), info or hub.info
    codes = hub.languages() if languages is None else [*map(normalize_code, listed_codes(languages))]
    if not codes:
        raise HubError(f"{hub.path}: expected languages to push, found none; train some (modenc train)")
    with tempfile.TemporaryDirectory() as folder:
        # A copy, so that languages installed in the meantime do not mix with the old ones.
        copied = hub.copy(Path(folder, "hub"), info, codes)
        commit, there = _destination(api, repo, private, revision)
        cards = _cards_there(repo, commit, there, info, token) | {code: copied.card(code) for code in codes}
        own, first = hub.path / README_FILE, info.pivot
        in_order = [cards[code] for code in sorted(cards, key=lambda code: (code != first, code))]
        page = read_text(own) if own.is_file() else hub_page(repo, info, in_order)
        (copied.path / README_FILE).write_text(page, encoding="utf-8", errors="backslashreplace")
        paths = sorted(path for path in copied.path.rglob("*") if path.is_file())
        files = {path.relative_to(copied.path).as_posix(): path for path in paths}
        operations: list[Any] = [CommitOperationAdd(name, str(path)) for name, path in files.items()]
        # Files of older versions of these languages, which are not on the new cards.
        stale = [name for name in there if name.partition("/")[0] in codes and name not in files]
        operations += map(CommitOperationDelete, stale)
        with hugging_face_errors(repo, revision):
            done = api.create_commit(
                repo,
                operations,
                commit_message=message or f"Add {', '.join(codes)}",
                revision=revision,
                parent_commit=commit,
            )
    return str(done.commit_url)


def _destination(api: HfApi, repo: str, private: bool | None, revision: str | None) -> tuple[str, list[str]]:
    """Make the repository and branch if needed; returns the newest commit there, and its files."""
    with hugging_face_errors(repo, revision):
        api.create_repo(repo, private=private, exist_ok=True)
        if revision is not None:
            api.create_branch(repo, branch=revision, exist_ok=True)
        found = api.model_info(repo, revision=revision)
    if private and found.private is False:
        raise HubError(
            f"{repo}: expected a private repository, found a public one; nothing was uploaded. Make it "
            "private on the site, or push without --private"
        )
    return str(found.sha), [file.rfilename for file in found.siblings or ()]


def _cards_there(
    repo: str, commit: str, there: list[str], info: HubInfo, token: bool | str | None
) -> dict[str, Card]:
    """Return code → card of the hub in the repository, which may be empty but hold nothing else."""
    if HUB_FILE not in there:
        others = [name for name in there if name not in _OTHER_FILES and not name.startswith(".")]
        if others:
            raise HubError(
                f"{repo}: expected a hub or an empty repository, found {', '.join(others[:5])}; "
                "nothing was uploaded. Give another id"
            )
        return {}
    found = RemoteHub(repo, commit, token)
    if different := info.differences(found.info):
        raise HubError(f"{repo} is another kind of hub ({different}); nothing was uploaded. Give another id")
    return {code: found.card(code) for code in found.languages()}
