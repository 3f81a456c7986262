"""Counts how often printed intervals held what they name, and convicts those that hold it too seldom."""

from __future__ import annotations

from collections import Counter

from scipy.stats import beta, binom

SURE = 0.95
"""Confidence of the lower bound of each share."""
FALSE_ALARMS = 0.01
"""How likely a page has any mark at all, if every interval on it holds as often as it promises."""
# Truths are added up in floats: what lies this close to an end is the end.
_ROUNDING = 1e-9


def holds(low, high, truth):
    """Tell whether a truth lies between two ends; None where no end is known, so that nothing is said."""
    ends = [-float("inf") if low is None else low, float("inf") if high is None else high]
    if ends == [-float("inf"), float("inf")]:
        return None
    slack = _ROUNDING * (1 + abs(truth))
    return ends[0] - slack <= truth <= ends[1] + slack


class Tally:
    """In how many runs a statement held; for each row of a release by itself, as runs are independent and rows may not be."""

    def __init__(self):
        self.runs, self.held = Counter(), Counter()

    def add(self, row, held, promised):
        """Count one run of a row, which promises so much. What says nothing (None) is no trial."""
        if held is not None:
            self.runs[row, promised] += 1
            self.held[row, promised] += held

    def chances(self):
        """How likely each row would hold so seldom, if it held as often as it promises."""
        return {
            key: float(binom.cdf(self.held[key], runs, key[1])) for key, runs in self.runs.items()
        }

    def worst(self):
        """Return (promised, held, runs) of the row that is least likely to hold as often as it promises; None if nothing was said."""
        chances = self.chances()
        # A row that was seldom there says little; it is not shown if another one was there more often.
        often = [key for key in chances if self.runs[key] * 4 >= max(self.runs.values())]
        if not often:
            return None
        key = min(often, key=lambda one: (chances[one], str(one)))
        return key[1], self.held[key], self.runs[key]


def at_least(held, runs):
    """The exact lower bound of a share (Clopper and Pearson)."""
    return 0.0 if not held else float(beta.ppf(1 - SURE, held, runs - held + 1))


def tests(tallies):
    """How many shares are looked at on a page."""
    return sum(len(tally.runs) for tally in tallies)


def convicted(tally, looked_at):
    """Tell whether some row held so seldom that chance hardly explains it, among as many shares as were looked at."""
    return any(chance * looked_at < FALSE_ALARMS for chance in tally.chances().values())


def cell(tally, looked_at):
    """What a table says of a tally: its worst row, with the lower bound of its share, and the mark."""
    found = tally.worst()
    if found is None:
        return "no end"
    _, held, runs = found
    mark = " **too narrow**" if convicted(tally, looked_at) else ""
    return f"{held} of {runs} ({at_least(held, runs):.3f}){mark}"
