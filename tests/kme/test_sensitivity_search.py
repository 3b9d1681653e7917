"""A search for rows whose embeddings are farther apart than is claimed, for every feature map of a release."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dfprivacy import Column
from dfprivacy.features import Fourier, Nystrom, ProductKernel, gaussian_frequencies, spread

X = Column("x", bounds=(-3.0, 1.5), fill=-0.75)
PUBLIC_X = replace(X, public=True)
FAR = Column("far", bounds=(1e16, 1e16 + 4), fill=1e16)  # four floats wide
G = Column("g", categories=("a", "b", "c"))
PUBLIC_G = replace(G, public=True)
OTHER = Column("o", categories=("a", "other"), other=True)

MIXTURES = {
    "number": [X],
    "numbers": [X, FAR],
    "number and category": [X, G],
    "public number, category": [PUBLIC_X, G],
    "number, public category": [X, PUBLIC_G],
    "public number, number, other": [PUBLIC_X, FAR, OTHER],
}


def maps(columns, width):
    """The feature maps that such columns may have, at a lengthscale of so many half widths."""
    numbers = [column for column in columns if column.bounds]
    kernel = ProductKernel(columns, {column.name: width * column.half for column in numbers}, 0.3)
    yield Nystrom(kernel, spread(kernel.columns, 24), 1e-10)
    if len(numbers) == len(columns):
        yield Fourier(columns, gaussian_frequencies(kernel.lengthscales, 16))


@pytest.mark.parametrize("width", [0.3, 1.0, 30.0])
@pytest.mark.parametrize("mixture", MIXTURES)
def test_no_row_moves_an_embedding_more(search, mixture, width):
    """Public columns beside private ones, narrow kernels and wide ones, rows of no category and of others."""
    columns = MIXTURES[mixture]

    most = [search(columns, 1).features(asked, 2, tries=3, steps=80) for asked in maps(columns, width)]

    assert max(most) <= 1 + 1e-6  # the rounding of a vector has a step of its own
    assert max(most) > 0.6


@pytest.mark.parametrize("mixture", MIXTURES)
def test_no_row_moves_an_embedding_more_in_the_norm_of_laplace_noise(search, mixture):
    """In L1, where the claim is by the number of features."""
    columns = MIXTURES[mixture]

    most = [search(columns, 1).features(asked, 1, tries=3, steps=80) for asked in maps(columns, 1.0)]

    assert max(most) <= 1 + 1e-6


def test_a_claim_of_nine_tenths_is_found_out(search):
    """The search refutes a distance that is a tenth too small."""
    columns = MIXTURES["number and category"]
    (honest,) = maps(columns, 1.0)

    class Understated:
        rows = honest.rows

        def sensitivity(self, relation, norm, public):
            return 0.9 * honest.sensitivity(relation, norm, public)

    assert search(columns, 1).features(Understated(), 2) > 1
