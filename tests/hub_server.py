"""A small double of Hugging Face's server: what its client downloads, creates and commits goes through here.

Run as a process: ``python hub_server.py`` prints its port and serves until it is killed. Repositories are in
memory, a commit is a mapping from path to bytes; files that end in ``.safetensors`` go through LFS, as there.
``GET /_log`` gives what was asked since the last ``POST /_forget``; ``POST /_faults`` and ``POST /_rewrite``
make it misbehave.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import parse_qs, unquote, urlsplit

OWNER, READER, STRANGER = "hf_owner", "hf_reader", "hf_stranger"
"""Tokens that may write, read private repositories, and neither."""


@dataclass
class Repo:
    private: bool
    heads: dict[str, str] = field(default_factory=dict)
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def commit(self, branch: str, files: dict[str, bytes], message: str) -> str:
        parent = self.heads.get(branch, "")
        tree = sorted((path, hashlib.sha256(content).hexdigest()) for path, content in files.items())
        sha = hashlib.sha1(repr((parent, tree, message)).encode()).hexdigest()
        self.heads[branch], self.commits[sha] = sha, files
        self.messages.append(message)
        return sha


repos: dict[str, Repo] = {}
large: dict[str, bytes] = {}
log: list[str] = []
issues: dict[str, str] = {}
"""Part of a path → ``cut``, ``hang`` or a status."""
lock = Lock()


def in_lfs(path: str) -> bool:
    return path.endswith(".safetensors")


def blob_id(content: bytes) -> str:
    """As git has it."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Refusal(Exception):
    def __init__(self, status: int, code: str = "", message: str = "", url: str = "") -> None:
        self.status, self.code, self.message, self.url = status, code, message, url


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def handle_any(self) -> None:
        parts = urlsplit(self.path)
        self.route, self.query = unquote(parts.path), parse_qs(parts.query)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if not self.route.startswith("/_"):
                log.append(f"{self.command} {unquote(self.path)}")
                self.stumble()
            with lock:
                answer = self.answer()
            self.reply(200, *answer)
        except Refusal as refusal:
            headers = {"X-Error-Code": refusal.code, "X-Error-Message": refusal.message}
            text = json.dumps({"error": refusal.message, "url": refusal.url}).encode()
            self.reply(refusal.status, text, {name: value for name, value in headers.items() if value})

    do_GET = do_HEAD = do_POST = do_PUT = handle_any

    def reply(self, status: int, content: bytes = b"", headers: dict[str, str] | None = None) -> None:
        headers = dict(headers or {})
        status = int(headers.pop("status", status))
        start = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if start and status == 200:
            headers["Content-Range"] = f"bytes {start[1]}-{len(content) - 1}/{len(content)}"
            status, content = 206, content[int(start[1]) :]
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            if self.issue == "cut":
                content = content[: len(content) // 2]
                self.close_connection = True
            elif self.issue == "hang":
                self.wfile.write(content[: len(content) // 2])
                self.wfile.flush()
                time.sleep(60)
            self.wfile.write(content)

    issue = ""

    def stumble(self) -> None:
        self.issue = next((kind for part, kind in issues.items() if part in unquote(self.path)), "")
        if self.issue.isdigit():
            raise Refusal(int(self.issue), message="out of order")

    def user(self) -> str:
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token not in ("", OWNER, READER, STRANGER):
            raise Refusal(401, message="Invalid credentials in Authorization header")
        return token

    def repo(self, name: str, *, write: bool = False) -> Repo:
        user, found = self.user(), repos.get(name)
        if found is None or (found.private and user not in (OWNER, READER)):
            raise Refusal(404 if user else 401, "RepoNotFound", "Repository not found")
        if write and user != OWNER:
            raise Refusal(403, message="You don't have the rights to write here")
        return found

    def tree(self, repo: Repo, revision: str) -> tuple[str, dict[str, bytes]]:
        sha = repo.heads.get(revision, revision)
        if sha not in repo.commits:
            raise Refusal(404, "RevisionNotFound", "Invalid rev id")
        return sha, repo.commits[sha]

    def answer(self) -> tuple[bytes, dict[str, str]]:
        for pattern, act in ROUTES:
            command, _, path = pattern.partition(" ")
            if self.command in command.split("|") and (match := re.fullmatch(path, self.route)):
                given = act(self, **match.groupdict())
                return given if isinstance(given, tuple) else (json.dumps(given).encode(), JSON)
        raise Refusal(404, message="Not found")

    # What the client asks.

    def info(self, name: str, revision: str | None = None) -> object:
        repo = self.repo(name)
        sha, files = self.tree(repo, revision or "main")
        siblings = [{"rfilename": path} for path in sorted(files)]
        if "blobs" in self.query:
            siblings = [entry | self.described(entry["rfilename"], files) for entry in siblings]
        return {
            "id": name,
            "modelId": name,
            "sha": sha,
            "private": repo.private,
            "tags": [],
            "siblings": siblings,
        }

    def described(self, path: str, files: dict[str, bytes]) -> dict[str, object]:
        content = files[path]
        found: dict[str, object] = {"size": len(content), "blobId": blob_id(content)}
        if in_lfs(path):
            checksum = hashlib.sha256(content).hexdigest()
            found["lfs"] = {"sha256": checksum, "size": len(content), "pointerSize": 134}
        return found

    def listed(self, name: str, revision: str) -> object:
        _, files = self.tree(self.repo(name), revision)
        return [
            {"type": "file", "path": path, "size": len(content), "oid": blob_id(content)}
            for path, content in sorted(files.items())
        ]

    def resolve(self, name: str, revision: str, path: str) -> object:
        sha, files = self.tree(self.repo(name), revision)
        if path not in files:
            raise Refusal(404, "EntryNotFound", "Entry not found")
        content = files[path]
        headers = {"X-Repo-Commit": sha, "Accept-Ranges": "bytes"}
        if not in_lfs(path):
            return content, headers | {"ETag": f'"{blob_id(content)}"'}
        checksum = hashlib.sha256(content).hexdigest()
        large[checksum] = content
        headers |= {"X-Linked-ETag": f'"{checksum}"', "X-Linked-Size": str(len(content))}
        # From another host, as there: huggingface_hub 2 follows redirects within a host for headers, too.
        elsewhere = self.here().replace("127.0.0.1", "localhost")
        return b"", headers | {"status": "302", "Location": f"{elsewhere}/cdn/{checksum}?of={path}"}

    def cdn(self, checksum: str) -> object:
        return large[checksum], {"ETag": f'"{checksum}"'}

    def here(self) -> str:
        return f"http://{self.headers['Host']}"

    def create(self) -> object:
        wanted = json.loads(self.body)
        name = f"{wanted['organization']}/{wanted['name']}"
        if self.user() != OWNER:
            raise Refusal(403 if self.user() else 401, message="You don't have the rights to create this")
        if name in repos:
            url = f"{self.here()}/{name}"
            raise Refusal(409, message="You already created this model repo", url=url)
        # huggingface_hub 1 says private, 2 visibility.
        repos[name] = Repo(bool(wanted.get("private")) or wanted.get("visibility") == "private")
        repos[name].commit("main", {".gitattributes": b"*.safetensors filter=lfs\n"}, "initial commit")
        return {"url": f"{self.here()}/{name}", "name": name}

    def branch(self, name: str, branch: str) -> object:
        repo = self.repo(name, write=True)
        if branch in repo.heads:
            raise Refusal(409, message="Reference already exists")
        start = json.loads(self.body or b"{}").get("startingPoint", "main")
        repo.heads[branch] = self.tree(repo, start)[0]
        return {}

    def validate(self) -> object:
        text = json.loads(self.body)["content"]
        header = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
        if header is None:
            return {"warnings": [{"message": "empty or missing yaml metadata in repo card"}], "errors": []}
        return {"warnings": [], "errors": []}

    def preupload(self, name: str, revision: str) -> object:
        _, files = self.tree(self.repo(name, write=True), revision)
        entries = []
        for entry in json.loads(self.body)["files"]:
            path = entry["path"]
            mode = "lfs" if in_lfs(path) else "regular"
            entries.append({"path": path, "uploadMode": mode, "shouldIgnore": False})
            if content := files.get(path):
                oid = hashlib.sha256(content).hexdigest() if mode == "lfs" else blob_id(content)
                entries[-1]["oid"] = oid
        return {"files": entries}

    def batch(self, name: str) -> object:
        self.repo(name, write=True)
        objects = []
        for entry in json.loads(self.body)["objects"]:
            upload = {"upload": {"href": f"{self.here()}/lfs/{entry['oid']}"}}
            known = entry["oid"] in large
            objects.append({**entry, "authenticated": True, **({} if known else {"actions": upload})})
        return {"transfer": "basic", "objects": objects}

    def put(self, checksum: str) -> object:
        if hashlib.sha256(self.body).hexdigest() != checksum:
            raise Refusal(422, message="other bytes than announced")
        large[checksum] = self.body
        return {}

    def commit(self, name: str, revision: str) -> object:
        repo = self.repo(name, write=True)
        parent, files = self.tree(repo, revision)
        files = dict(files)
        message = ""
        for line in self.body.splitlines():
            kind, value = json.loads(line).values()
            if kind == "header":
                message = value["summary"]
                if value.get("parentCommit", parent) != parent:
                    raise Refusal(412, message="A commit has happened since. Please refresh and try again.")
            elif kind == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif kind == "lfsFile":
                files[value["path"]] = large[value["oid"]]
            elif kind == "deletedFile":
                del files[value["path"]]
        sha = repo.commit(revision, files, message)
        return {
            "success": True,
            "commitOid": sha,
            "commitUrl": f"{self.here()}/{name}/commit/{sha}",
            "hookOutput": "",
        }

    # What tests ask.

    def recorded(self) -> object:
        return {"log": log, "commits": {name: repo.messages for name, repo in repos.items()}}

    def forget(self) -> object:
        log.clear()
        return {}

    def fail(self) -> object:
        issues.clear()
        issues.update(json.loads(self.body))
        return {}

    def rewrite(self, name: str) -> object:
        """Change or remove files of a branch's newest commit without another commit, or that commit."""
        repo, wanted = repos[name], json.loads(self.body)
        files = repo.commits[repo.heads["main"]]
        for path, content in wanted.items():
            if path == "*":
                del repo.commits[repo.heads["main"]]
            elif content is None:
                for found in [found for found in files if re.fullmatch(path, found)]:
                    del files[found]
            else:
                files[path] = base64.b64decode(content)
        return {}


JSON = {"Content-Type": "application/json"}
NAME = r"(?P<name>[^/]+/[^/]+)"
ROUTES = [
    (rf"GET /api/models/{NAME}", Handler.info),
    (rf"GET /api/models/{NAME}/revision/(?P<revision>.+)", Handler.info),
    (rf"GET /api/models/{NAME}/tree/(?P<revision>[^/]+)", Handler.listed),
    (rf"GET|HEAD /{NAME}/resolve/(?P<revision>[^/]+)/(?P<path>.+)", Handler.resolve),
    (r"GET|HEAD /cdn/(?P<checksum>\w+)", Handler.cdn),
    (r"POST /api/repos/create", Handler.create),
    (rf"POST /api/models/{NAME}/branch/(?P<branch>.+)", Handler.branch),
    (r"POST /api/validate-yaml", Handler.validate),
    (rf"POST /api/models/{NAME}/preupload/(?P<revision>.+)", Handler.preupload),
    (rf"POST /{NAME}\.git/info/lfs/objects/batch", Handler.batch),
    (r"PUT /lfs/(?P<checksum>\w+)", Handler.put),
    (rf"POST /api/models/{NAME}/commit/(?P<revision>.+)", Handler.commit),
    (r"GET /_log", Handler.recorded),
    (r"POST /_forget", Handler.forget),
    (r"POST /_faults", Handler.fail),
    (rf"POST /_rewrite/{NAME}", Handler.rewrite),
]


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()
