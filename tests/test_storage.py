"""Whichever library meets a full disk, one error says so."""

import errno

import pytest
from safetensors import SafetensorError

from modenc.errors import DataError, StorageError
from modenc.storage import atomic_write, disk_errors


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EROFS, "Read-only file system"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        Exception("No space left on device (os error 28)"),  # as tokenizers raises it
        OSError("4096 requested and 0 written"),  # as numpy does
        RuntimeError("[enforce fail at inline_container.cc:664] unexpected pos 64 vs 0"),  # torch
    ],
)
def test_a_full_disk_is_one_error(tmp_path, error):
    message = r"cannot be written \(.*\); all is kept\. Make room"
    with pytest.raises(StorageError, match=message), disk_errors(tmp_path, "all is kept"):
        raise error


@pytest.mark.parametrize(
    "error", [ValueError("another"), FileNotFoundError(errno.ENOENT, "No such file"), DataError("ours")]
)
def test_other_errors_stay_what_they_are(tmp_path, error):
    expected = pytest.raises(type(error), match=r"another|No such file|ours")
    with expected as caught, disk_errors(tmp_path, "all is kept"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM])
def test_a_folder_of_somebody_else_is_the_same_error(tmp_path, code):
    message = r"cannot be written \(.*\); all is kept\."
    with pytest.raises(StorageError, match=message), disk_errors(tmp_path, "all is kept"):
        raise PermissionError(code, "no", str(tmp_path / "hub.json"))
    # A file elsewhere was to be read.
    with pytest.raises(PermissionError), disk_errors(tmp_path, "all is kept"):
        raise PermissionError(code, "no", "/elsewhere/rows.tsv")


def test_a_file_is_whole_or_what_it_was(tmp_path):
    path = tmp_path / "dev.json"
    path.write_text("old")

    def half() -> None:
        with atomic_write(path) as temporary:
            temporary.write_text("ne")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        half()
    assert path.read_text() == "old"
    with atomic_write(path) as temporary:
        temporary.write_text("new")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("dev.json", "new")]
