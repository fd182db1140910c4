"""Results of estimators for each kind of input are as expected and as documented."""

import pytest

from tests.input_validation import page
from tests.input_validation.cases import SECTIONS


@pytest.mark.parametrize("case", [c for cases in SECTIONS.values() for c in cases], ids=lambda c: c.kind)
def test_each_kind_of_input_has_the_expected_result(case):
    assert case.expected in page.result_of(case)


def test_the_page_is_up_to_date():
    written, made = (page.without_figures(text) for text in (page.current(), page.generated()))
    assert written == made, "run python -m tests.input_validation.page"
