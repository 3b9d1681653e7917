"""What every bundled method answers, as a picture in the words of the schema."""

from __future__ import annotations

import re

import pytest

WORDS = {
    "Age at admission (years)": "agg anova corr cov dcor dcor_screen dcor_with describe find_bounds fourier_sketch "
    "gmm_fit histogram hsic kernel_two_sample kme_exponential kme_release kruskal logit "
    "mannwhitneyu mean median missing moments ols "
    "profile quantile report std sum ttest var wilcoxon ztest",
    "Body mass index (kg/m²)": "corr cov dcor dcor_screen dcor_with find_bounds fourier_sketch gmm_fit "
    "hsic kernel_two_sample kme_exponential kme_release moments ols profile report",
    "Length of stay (days)": "corr describe kaplan_meier profile report survival_test",
    "Died within a month": "chi2 chi2_many chi2_unitcircle crosstab logit mcnemar proportions",
    "Treatment": "chi2 chi2_many chi2_unitcircle gmm_fit kaplan_meier mannwhitneyu proportions survival_test ttest",
    "Ward": "anova crosstab find_categories kruskal logit nunique ols value_counts",
    "rows": "count crosstab find_bounds find_categories histogram value_counts",
}
PICTURES = sorted({name for names in WORDS.values() for name in names.split()})
# Messages from one party to another, and places where a test is to look: no estimate, and nothing compared.
NOTHING_TO_SEE = {"dcor_message", "kernel_locations", "kernel_message"}


@pytest.fixture
def plt(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    yield pyplot
    pyplot.close("all")


def test_every_answer_that_says_something_has_a_picture(asked):
    """All but messages between two parties, and places to look at."""
    assert set(asked) == {*PICTURES, *NOTHING_TO_SEE}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_speaks_in_the_words_of_the_schema(name, answers, plt):
    """Axes, ticks and legends have labels and units of the columns, no column's bare name; nothing is cut off."""
    from matplotlib.text import Text

    figure = answers[name].plot().figure
    figure.draw_without_rendering()

    texts = [each for each in figure.findobj(Text) if each.get_text().strip() and each.get_visible()]
    told = re.sub(r"\s+", " ", " | ".join(each.get_text() for each in texts))
    for words, names in WORDS.items():
        assert (words in told) or name not in names.split(), told
    rest = told.replace("Length of stay (days)", "")
    assert not re.search(r"\b(age|bmi|days|died|arm|ward|ill)\b", rest), told
    for ax in figure.findobj(plt.Axes):
        legend = ax.get_legend()
        labels = [ax.xaxis.label, ax.yaxis.label, ax.title, *(legend.get_texts() if legend else ())]
        for box in [each.get_window_extent() for each in labels if each.get_text() and ax.axison]:
            assert -2 <= box.x0 <= box.x1 <= figure.bbox.x1 + 2
            assert -2 <= box.y0 <= box.y1 <= figure.bbox.y1 + 2
        if legend:
            own = legend.get_window_extent()
            assert not any(own.overlaps(each.get_window_extent()) for each in labels[:3] if each.get_text())


@pytest.mark.parametrize("name", ["mean", "quantile", "agg", "describe", "crosstab", "ttest"])
def test_a_picture_can_be_seen_on_a_dark_page(name, answers, plt):
    """Nothing is drawn in nearly the colour of the paper."""
    from matplotlib.colors import to_rgb

    with plt.style.context("dark_background"):
        figure = answers[name].plot().figure
        lines = [to_rgb(line.get_color()) for ax in figure.findobj(plt.Axes) for line in ax.get_lines()]

    assert lines or name == "crosstab"
    assert all(max(colour) > 0.3 for colour in lines)
