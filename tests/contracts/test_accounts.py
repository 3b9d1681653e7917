"""What holds for every method where several tables, or editions of one, share an account."""

from __future__ import annotations

import pytest

from .conftest import NAMES


@pytest.mark.one_in(4)
def test_an_edition_answers_for_itself(method):
    """The same question of another edition is measured and paid again, and by the same account."""
    names = next(NAMES), next(NAMES)

    first = method.of(names=names, edition="1")
    before = first()
    paid = first.spent
    second = method.of(names=names, edition="2")
    answer = second()

    assert all(each > 0 for each in paid)
    assert [2 * each for each in paid] == second.spent == first.spent
    assert answer.privacy.epsilon == before.privacy.epsilon > 0
    assert not any(each.reused for each in answer.privacy.noise)
