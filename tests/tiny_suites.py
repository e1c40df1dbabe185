"""Suites of test sets, as TOML."""

import json


def task(name, kind, data, **settings):
    """One task's table; ``data`` is a path or a table."""
    lines = {"name": name, "kind": kind, "data": data, **settings}.items()
    return "[[task]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in lines)


def columns(path):
    """A file with a column for each language."""
    return {"path": path, "columns": {"left": "{pivot}", "right": "{lang}"}}


def _toml(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)
