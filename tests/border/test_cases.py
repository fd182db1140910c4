"""What estimators do with each kind of input, and that the documentation says so."""

import pytest

from tests.border import page
from tests.border.cases import SECTIONS


@pytest.mark.parametrize("case", [c for cases in SECTIONS.values() for c in cases], ids=lambda c: c.kind)
def test_each_kind_of_input_has_its_answer(case):
    assert case.says in page.answer(case)


def test_the_page_states_what_is_done():
    written, made = (page.without_figures(text) for text in (page.current(), page.generated()))
    assert written == made, "python -m tests.border.page writes it anew"
