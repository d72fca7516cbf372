"""`nesht theory`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nesht.errors import UserError

if TYPE_CHECKING:
    from nesht.theory import Analysis

PER_SECOND, YEAR, UNIVERSE = 1e6, 365.25 * 24 * 3600, 1.38e10
"""A fast machine's episodes per second, a year's seconds, and the age of the universe in years."""


@dataclass(frozen=True)
class Theory:
    """Ask the paper's theorem: nesht theory --d 366 --bound 1000 --variance 50 --sigma 0.1 --epsilon 1."""

    sigma: float
    """Standard deviation of the perturbations."""
    d: int | None = None
    """Parameters of the policy."""
    bound: float | None = None
    """B: no policy's expected return is larger in magnitude."""
    variance: float | None = None
    """C: the variance of one episode's return, at most."""
    policy: Path | None = None
    """A run folder or policy file: what is not given of d, B and C is measured on its task, around it."""
    epsilon: float | None = None
    """Which effort makes the gradient on the kept weights this short?"""
    budget: int | None = None
    """Which epsilon does this number of episodes guarantee?"""
    n: int | None = None
    """What is the variance with this many members, and should n or N be raised?"""
    rollouts: int = 1
    """Episodes per member, N, for --n."""
    c: float = 0.25
    """The step size is c / L, with c between 0 and 1/2."""
    json: bool = False
    """Print JSON instead of text."""

    def execute(self) -> None:
        """Answer what was asked, with the constants as printed in the paper and as they can be corrected."""
        try:
            self._answer()
        except ArithmeticError:
            raise UserError("numbers so large or so small cannot be computed with.") from None

    def _answer(self) -> None:
        if self.epsilon is self.budget is self.n is None:
            raise UserError("what do you want to know? Give --epsilon, --budget or --n.")
        paper = self._analysis()
        both = {"paper": paper, "corrected": replace(paper, corrected=True)}
        facts = {name: self._facts(analysis) for name, analysis in both.items()}  # first: refuses what makes no sense
        if self.json:
            print(json.dumps(facts, indent=2))
            return
        print(
            f"d = {paper.d} parameters, returns up to B = {paper.bound:,g}, episode variance C = {paper.variance:,g}, "
            f"sigma = {paper.sigma:g}, c = {paper.c:g}\n"
            f"Lengths of the gradient are in points of return per unit of weight; none is above {paper.steepest:,.4g}."
        )
        if self.policy is not None:
            print("What was not given is measured around the policy: elsewhere B and C may well be larger.")
        if self.epsilon is not None:
            self._plan(both)
        if self.budget is not None:
            self._guarantee(both)
        if self.n is not None:
            self._spread(both)

    def _analysis(self) -> Analysis:
        """Return the problem's numbers, given or measured."""
        from nesht.theory import Analysis

        d, bound, variance = self.d, self.bound, self.variance
        if self.policy is not None:
            from nesht.policies.saved import load_policy
            from nesht.theory.bounds import positive
            from nesht.theory.rollouts import policy_spread

            positive("sigma (the size of the perturbations)", self.sigma)
            policy = load_policy(self.policy)
            d = policy.network.size if d is None else d
            if bound is None or variance is None:
                spread = policy_spread(policy, self.sigma)
                bound = float(f"{spread.bound:.4g}") if bound is None else bound
                variance = float(f"{spread.variance.value:.4g}") if variance is None else variance
        if d is None or bound is None or variance is None:
            raise UserError("the theorem needs --d, --bound and --variance, or a --policy to measure them around.")
        return Analysis(d, bound, variance, self.sigma, self.c)

    def _facts(self, analysis: Analysis) -> dict[str, Any]:
        names = ("c1", "c2", "smoothness", "step", "steepest")
        facts: dict[str, Any] = {**asdict(analysis), **{name: getattr(analysis, name) for name in names}}
        if self.epsilon is not None:
            plan = analysis.plan(self.epsilon)
            facts["plan"] = {**asdict(plan), "episodes": plan.episodes}
        if self.budget is not None:
            facts["guaranteed"] = analysis.guaranteed(self.budget)
        if self.n is not None:
            facts["variance_bound"] = analysis.variance_bound(self.n, self.rollouts)
        return facts

    def _plan(self, both: dict[str, Analysis]) -> None:
        assert self.epsilon is not None
        print(f"\nTo make the gradient on the kept weights {self.epsilon:g} long in expectation:")
        _table(both, {"L, how fast the gradient can turn": lambda one: _number(one.smoothness)})
        plans = {name: one.plan(self.epsilon) for name, one in both.items()}
        rows = {
            "alpha, the step size of plain SGD": "step",
            "T, generations": "generations",
            "n, members": "n",
            "N, rollouts of each": "rollouts",
            "T n N, episodes": "episodes",
        }
        for words, name in rows.items():
            _row(words, *(_number(getattr(plan, name)) for plan in plans.values()))
        print()
        for words, plan in zip(("As printed", "Corrected"), plans.values(), strict=True):
            print(f"{words}: {_duration(plan.episodes)}.")
        if plans["paper"].episodes > PER_SECOND * YEAR:
            print("Astronomically loose: the bound holds for the worst of all returns that stay within B, and says")
            print("nothing about what your run will need.")
        if self.epsilon >= both["paper"].steepest:
            print("No gradient of this problem is longer than that epsilon: it is reached without any training.")

    def _guarantee(self, both: dict[str, Analysis]) -> None:
        assert self.budget is not None
        print(f"\nWhat {self.budget:,} episodes guarantee:")
        found = {name: one.guaranteed(self.budget) for name, one in both.items()}
        _head()
        _row("epsilon", *(_number(epsilon) for epsilon in found.values()))
        for name, epsilon in found.items():
            if epsilon >= both[name].steepest:
                words = "bound as printed" if name == "paper" else "corrected bound"
                print(f"The {words} says nothing here: every policy, trained or not, has a shorter gradient.")

    def _spread(self, both: dict[str, Analysis]) -> None:
        assert self.n is not None
        n, rollouts = self.n, self.rollouts
        print(f"\nMean squared error of the gradient with n = {n:,} members of N = {rollouts:,} episodes, at most:")
        _table(
            both,
            {
                "now": lambda one: _number(one.variance_bound(n, rollouts)),
                "with twice the n": lambda one: _number(one.variance_bound(2 * n, rollouts)),
                "with twice the N": lambda one: _number(one.variance_bound(n, 2 * rollouts)),
                "best n and N for as many episodes": lambda one: "{:,} and {:,}".format(*one.split(n * rollouts)),
            },
        )
        printed = both["paper"]
        wrong = printed.variance_bound(n, 2 * rollouts) < printed.variance_bound(2 * n, rollouts)
        print("Raise n rather than N: for equal episodes it is never worse.")
        if wrong:
            print("The printed bound would have you raise N; it forgets that luck averages out over members, too.")


def _table(both: dict[str, Analysis], rows: dict[str, Any]) -> None:
    _head()
    for words, number in rows.items():
        _row(words, *(number(one) for one in both.values()))


def _head() -> None:
    _row("", "as printed", "corrected")


def _row(words: str, printed: str, corrected: str) -> None:
    print(f"  {words:<36}{printed:>18}{corrected:>18}")


def _number(value: float) -> str:
    if 1e3 <= value < 1e7:
        return f"{value:,.0f}"
    return f"{value:.4g}" if 1e-3 <= value < 1e3 else f"{float(value):.2e}"


def _duration(episodes: int) -> str:
    """Say how long a plan takes on a fast machine."""
    years = episodes / PER_SECOND / YEAR
    if years < 1:
        return f"{_number(episodes / PER_SECOND)} seconds at a million episodes a second"
    ages = f", {_number(years / UNIVERSE)} times the age of the universe" if years > UNIVERSE else ""
    return f"{_number(years)} years at a million episodes a second{ages}"
