"""Output files are not replaced without --force, and must be writable."""

import os
import socket
from pathlib import Path

import pytest

from probsfa.cli._errors import CommandError
from probsfa.cli._outputs import check_outputs, writing


def test_existing_file_is_an_error_without_force(tmp_path):
    path = tmp_path / "out.csv"
    check_outputs([path], force=False)
    path.write_text("old")
    with pytest.raises(CommandError, match=r"out\.csv.*--force"):
        check_outputs([path], force=False)
    check_outputs([path], force=True)


def test_input_is_never_an_output(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("data")
    alias = tmp_path / "alias.csv"
    alias.symlink_to(path)
    for output in (path, tmp_path / "." / "data.csv", alias):
        with pytest.raises(CommandError, match="input"):
            check_outputs([output], force=True, inputs=[path])


def test_equal_names_of_outputs_are_an_error(tmp_path):
    with pytest.raises(CommandError, match="two outputs"):
        check_outputs([tmp_path / "a.csv", tmp_path / "." / "a.csv"], force=True)


def test_folders_as_outputs_are_errors(tmp_path):
    with pytest.raises(CommandError, match="folder"):
        check_outputs([tmp_path], force=True)
    with pytest.raises(CommandError, match="no folder"):
        check_outputs([tmp_path / "none" / "a.csv"], force=True)


def test_folder_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # permissions do not apply to every user
    with pytest.raises(CommandError, match="written"):
        check_outputs([tmp_path / "a.csv"], force=True)


def test_devices_and_pipes_do_not_require_force(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    check_outputs([Path(os.devnull), tmp_path / "pipe"], force=False)


def test_a_device_that_cannot_be_written_to(monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(CommandError, match="written"):
        check_outputs([Path(os.devnull)], force=True)


def test_a_socket_is_not_an_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # names of sockets have a maximum length
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        with pytest.raises(CommandError, match="socket: is a socket"):
            check_outputs([Path("socket")], force=True)


def test_only_one_output_can_go_to_standard_output(capfdbinary):
    with pytest.raises(CommandError, match="standard output"):
        check_outputs([Path("-"), Path("-")], force=False)
    check_outputs([Path("-")], force=False)
    with writing(Path("-")) as [draft]:
        draft.write_bytes(b"bytes")
    assert capfdbinary.readouterr().out == b"bytes"


def test_nothing_is_written_to_standard_output_after_an_error(capfdbinary):
    with pytest.raises(ValueError, match="half"), writing(Path("-")) as [draft]:
        draft.write_bytes(b"bytes")
        raise ValueError("half")
    assert capfdbinary.readouterr().out == b""
