"""The paired bootstrap against SciPy's, and against cases with a known answer."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lmev2.bootstrap import compare, interval, resampled_means

RESAMPLES = 10_000


def answers(seed: int, questions: int, share: float) -> np.ndarray:
    return (np.random.default_rng(seed).random(questions) < share).astype(float)


@pytest.mark.parametrize(("questions", "share"), [(451, 0.43), (189, 0.66), (29, 0.2)])
def test_intervals_equal_scipys(questions: int, share: float) -> None:
    values = answers(questions, questions, share)
    ours = interval(values, RESAMPLES, 1, 0.95)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=RESAMPLES, method="percentile", rng=2).confidence_interval
    assert ours.mean == values.mean()
    step = 1 / questions + 1e-9  # a percentile of so few questions may fall on either side of a step
    assert ours.low == pytest.approx(theirs.low, abs=max(step, 0.012))
    assert ours.high == pytest.approx(theirs.high, abs=max(step, 0.012))


def test_paired_differences_equal_scipys() -> None:
    first, second = answers(1, 300, 0.55), answers(2, 300, 0.48)
    ours = compare(first, second, RESAMPLES, 5, 0.95)
    theirs = stats.bootstrap(
        (first, second),
        lambda a, b, axis: np.mean(a, axis=axis) - np.mean(b, axis=axis),
        paired=True,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=6,
    )
    assert ours.difference == pytest.approx(first.mean() - second.mean())
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.01)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.01)
    drawn = theirs.bootstrap_distribution
    assert ours.p == pytest.approx(2 * min((drawn <= 0).mean(), (drawn >= 0).mean()), abs=0.02)


def test_p_is_near_the_exact_sign_test_of_the_questions_that_differ() -> None:
    # 40 questions differ, 29 of them in favour: binomial p = 0.0064, and resampling agrees in size.
    difference = np.array([1.0] * 29 + [-1.0] * 11 + [0.0] * 160)
    p = compare(difference, np.zeros(200), RESAMPLES, 0, 0.95).p
    assert 0.001 < p < 0.02
    assert stats.binomtest(29, 40).pvalue == pytest.approx(0.0064, abs=0.0005)


def test_equal_methods_do_not_differ() -> None:
    values = answers(3, 100, 0.5)
    assert compare(values, values, RESAMPLES, 0, 0.95) == (0.0, 0.0, 0.0, 1.0)


def test_swapping_the_methods_keeps_p_and_turns_the_interval() -> None:
    first, second = answers(1, 120, 0.6), answers(2, 120, 0.5)
    one, other = compare(first, second, RESAMPLES, 0, 0.95), compare(second, first, RESAMPLES, 0, 0.95)
    assert one.p == other.p
    assert (one.difference, one.low, one.high) == pytest.approx((-other.difference, -other.high, -other.low))


def test_the_same_seed_gives_the_same_draws_whatever_the_chunks() -> None:
    values = answers(4, 50, 0.5)
    assert (resampled_means(values, 2500, 7) == resampled_means(values, 2500, 7)).all()
    assert (resampled_means(values, 1000, 7) == resampled_means(values, 2500, 7)[:1000]).all()


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match="3 and 4 questions"):
        compare(np.zeros(3), np.zeros(4), 10, 0, 0.95)
    with pytest.raises(ValueError, match="no questions"):
        interval(np.zeros(0), 10, 0, 0.95)
