"""docs/mining.md: its command parses, and its Python runs."""

import re
import shlex
from pathlib import Path

from modenc.cli.main import parse

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "mining.md").read_text(encoding="utf-8")


def test_the_command_parses():
    (command,) = re.findall(r"^```bash\n(.*?)\n```", DOCS, flags=re.MULTILINE | re.DOTALL)
    args = parse(shlex.split(command)[1:])
    assert (args.lang, args.exact_rows, args.neighbors) == (["kk", "en"], 100_000, 4)


def test_the_python_runs(tiny_hub, tmp_path, monkeypatch, capsys):
    (block,) = re.findall(r"^```python\n(.*?)^```", DOCS, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "adapters_hub").mkdir()
    (tmp_path / "adapters_hub" / "me5-small").symlink_to(tiny_hub.path)
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "mining.md", "exec"), {})
    assert re.match(r"\d\.\d\d  .+\.  .+\.\n", capsys.readouterr().out)
