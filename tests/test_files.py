"""Files are written completely or not at all."""

import os
import stat
import subprocess
import sys
import threading

import pytest

from probsfa import _files
from probsfa._files import discard_temporary_files, is_special_file, replacing


def test_all_are_written(tmp_path):
    (tmp_path / "a.csv").write_text("old")
    with replacing(tmp_path / "a.csv", tmp_path / "b.csv.gz") as drafts:
        assert [draft.name.endswith(end) for draft, end in zip(drafts, (".csv", ".csv.gz"), strict=True)]
        for i, draft in enumerate(drafts):
            draft.write_text(f"new {i}")
        assert (tmp_path / "a.csv").read_text() == "old"
    assert (tmp_path / "a.csv").read_text() == "new 0"
    assert (tmp_path / "b.csv.gz").read_text() == "new 1"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_preserves_the_old_file(tmp_path, error):
    (tmp_path / "a.csv").write_text("old")
    with pytest.raises(error), replacing(tmp_path / "a.csv", tmp_path / "b.csv") as drafts:
        drafts[0].write_text("half")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert (tmp_path / "a.csv").read_text() == "old"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_names_the_output(tmp_path):
    (tmp_path / "a.csv").write_text("old")
    with pytest.raises(OSError, match=r"'.*a\.csv'"), replacing(tmp_path / "a.csv"):
        with open("/dev/full", "w") as full:
            full.write("new")
    assert (tmp_path / "a.csv").read_text() == "old"


def test_permissions_are_those_of_an_ordinary_file(tmp_path):
    (tmp_path / "plain").write_text("")
    (tmp_path / "closed").write_text("")
    (tmp_path / "closed").chmod(0o600)
    with replacing(tmp_path / "new", tmp_path / "closed"):
        pass
    assert os.stat(tmp_path / "new").st_mode == os.stat(tmp_path / "plain").st_mode
    assert os.stat(tmp_path / "closed").st_mode & 0o777 == 0o600


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    with replacing(tmp_path / "link.csv") as [draft]:
        draft.write_text("new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "new"


def test_a_missing_folder_leaves_no_temporary_file_in_another(tmp_path):
    with (
        pytest.raises(FileNotFoundError),
        replacing(tmp_path / "a.csv", tmp_path / "none" / "b.csv"),
    ):
        raise AssertionError("nothing can be written")
    assert list(tmp_path.iterdir()) == []


def read_in_background(pipe):
    """Start to read a named pipe; return a function that returns the content."""
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()

    def result():
        reader.join(timeout=10.0)
        return received[0]

    return result


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    result = read_in_background(pipe)
    with replacing(pipe, tmp_path / "b.csv") as [draft, other]:
        draft.write_text("through")
        other.write_text("beside")
    assert result() == b"through"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.csv", "pipe"]


def test_the_null_device_stays_what_it_is(tmp_path):
    link = tmp_path / "null"
    link.symlink_to(os.devnull)
    before = os.stat(os.devnull)
    for output in (os.devnull, link):
        assert is_special_file(output)
        with replacing(output) as [draft]:
            draft.write_text("nothing")
    after = os.stat(os.devnull)
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert link.is_symlink()


@pytest.mark.skipif(not os.path.exists("/dev/stdout"), reason="no streams as files on this system")
def test_output_is_appended_to_a_redirected_stream(tmp_path):
    with (tmp_path / "log").open("w") as log:
        print("before", file=log, flush=True)
        code = (
            "from probsfa._files import replacing\n"
            "with replacing('/dev/stdout') as [draft]: draft.write_text('draft')"
        )
        subprocess.run([sys.executable, "-c", code], stdout=log, check=True)
    assert (tmp_path / "log").read_text() == "before\ndraft"


def test_a_pipe_that_fails_touches_no_file(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("old")

    def fail(*_):
        raise BrokenPipeError

    monkeypatch.setattr(_files.shutil, "copyfileobj", fail)
    with pytest.raises(BrokenPipeError), replacing(tmp_path / "a.csv", os.devnull) as drafts:
        drafts[0].write_text("new")
    assert (tmp_path / "a.csv").read_text() == "old"


def test_drafts_can_be_discarded_from_outside(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a.csv") as [draft]:
        assert draft.exists()
        discard_temporary_files()
        assert not draft.exists()
    assert list(tmp_path.iterdir()) == []
