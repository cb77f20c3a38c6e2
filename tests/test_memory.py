"""Sizes of memory in words."""

import pytest

from dope import InputError
from dope.memory import as_bytes, as_text


@pytest.mark.parametrize("number", [1, 999, 1500, 16 * 10**9, 3 * 10**13])
def test_sizes_in_words_come_back(number):
    assert as_bytes(as_text(number).replace("bytes", "")) == pytest.approx(number, rel=0.01)


@pytest.mark.parametrize("text", ["", "GB", "-3GB", "1e400", "12 parsecs", "nan", "0"])
def test_words_that_are_no_size_are_refused(text):
    with pytest.raises(InputError, match="not a size of memory"):
        as_bytes(text)
