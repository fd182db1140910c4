"""Each example of the gallery runs as it is printed, is short, and draws a figure."""

import importlib.util
from pathlib import Path

import pytest

from tests.statespace.support import needs_core

DOCS = Path(__file__).resolve().parents[1] / "docs"


def load_gallery():
    spec = importlib.util.spec_from_file_location("docs_gallery", DOCS / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gallery = load_gallery()


@needs_core  # without the compiled engine models are compiled first
@pytest.mark.parametrize("example", gallery.EXAMPLES, ids=lambda example: example.name)
def test_example_makes_a_figure(example):
    assert gallery.draw(example).startswith(b"\x89PNG")
