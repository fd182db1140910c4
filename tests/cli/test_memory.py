"""Freed memory is returned to the operating system."""

import os
import sys
from pathlib import Path

import pytest

from probsfa.cli._memory import release_memory


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_freed_memory_is_returned_to_the_operating_system():
    pieces = [bytes(4_000) for _ in range(20_000)]
    last = pieces[-1]
    full = resident()
    del pieces
    release_memory()
    assert full - resident() > 60e6
    assert len(last) == 4_000


def test_release_memory_has_no_effect_on_other_systems(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr("ctypes.CDLL", None)
    release_memory()
