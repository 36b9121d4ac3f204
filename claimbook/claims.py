"""The claims engine: contests of candidates, and the verdicts that come out of them.

A check puts candidates side by side: the statement as `printed` or, for a statement of the book's
own, as `stated`; a `corrected` one; a `measured` truth; and `rivals`, wrong statements that lie
close by. Exactly one must survive, and which one it is, is the verdict. Anything else is
`Inconclusive`, which is never a verdict. Candidates come from the paper, samples and values from
the package under test.
"""

import itertools
import math

import numpy as np

from ._checks import integer, number
from .certify import bisect, witness
from .ledger import ID, VERDICT, VERDICTS, Check, ClaimError, Record, worst
from .show import claim_block

ALPHA = 1e-6  # level of every statistical check, and 1 - ALPHA its power: the draws follow from it
RESOLUTION = 0.01  # what a law or a share is off by that is noticed, whatever the rivals
ROUNDING, SEPARATION = 1e-9, 1e-6  # an error below the first is rounding, above the second not
MOST_DRAWS = 5_000_000
CHUNK = 50_000


class Inconclusive(ClaimError):
    """Not exactly one candidate survived, and that one with certainty."""


class VerdictDiffers(ClaimError):
    """The computed verdict is not the stated one."""


class claim:
    """Context in which one claim is put to the test; on leaving it, the verdict is shown.

        with claim("TG-16", "holds", seed) as c:
            c.bound(changes, printed=2 * r / n, rivals={"r/n": r / n})

    The second argument is the verdict that the author expects; another one raises, so that no
    text goes on saying what its check no longer shows. Each verb takes `printed` (or `stated`,
    where the statement is the book's own), where there are such `corrected` and `measured`, and
    `rivals`, a dict from words to candidate. Each of the others is a candidate or a pair
    `(words, candidate)`: the words tell the reader what it says. Without words, a number or an
    interval speaks for itself. The verb fixes the kind of evidence. `c.rng` is a
    Generator for values that the chapter draws itself; every check has a generator of its own,
    from (seed, id, number of the check), so that a new cell moves no other number.
    """

    def __init__(self, id: str, stated: str, seed: int):
        if not ID.fullmatch(id):
            raise ValueError(f"id is {id!r}; accepted are ids such as 'XX-16'")
        if stated not in VERDICTS:
            raise ValueError(f"stated is {stated!r}; accepted are {VERDICTS}")
        self.id, self.stated, self.seed, self.checks = id, stated, seed, []
        self.rng = self._generator(0)

    def __enter__(self) -> "claim":
        return self

    def __exit__(self, kind, error, traceback):
        if kind is not None:
            return
        if not self.checks:
            raise Inconclusive(f"{self.id}: nothing was checked")
        verdict = worst(check["survivor"] for check in self.checks)
        claim_block(Record(id=self.id, stated=self.stated, verdict=verdict, checks=self.checks))
        if verdict != self.stated:
            raise VerdictDiffers(f"{self.id}: stated {self.stated}, computed {verdict}")

    def identity(self, value, **candidates) -> None:
        """`proof`: sympy expressions or matrices in generic symbols.

        The survivor's difference from `value` simplifies to 0. A candidate is rejected by a
        rational point at which ball arithmetic certifies that the difference is not 0.
        """
        import sympy

        rng = self._generator(len(self.checks) + 1)
        results = {}
        for name, candidate in self._candidates(**candidates).items():
            pairs = [(sympy.sympify(a), sympy.sympify(b)) for a, b in _entries(value, candidate)]
            differences = [a - b for a, b in pairs]
            if any(a.has(sympy.Float) or b.has(sympy.Float) for a, b in pairs):
                raise ValueError(
                    f"{self.id}: {name} contains a floating-point number; accepted are exact ones")
            point = next(filter(None, (witness(each, rng) for each in differences)), None)
            if point:
                results[name] = False, f"differs by {point}"
            elif all(sympy.expand(d) == 0 or sympy.simplify(d) == 0 for d in differences):
                results[name] = True, "the difference simplifies to 0"
            else:
                results[name] = None, "neither proved nor refuted"
        unnoticed = "what happens outside the assumptions on its symbols"
        self._settle("proof", "on generic symbols", unnoticed, results)

    def enclosure(self, box, most_boxes: int = 200_000, **candidates) -> None:
        """`certificate`: each candidate claims to be positive on all of `box`.

        A candidate maps balls (`flint.arb`) to a margin; `box` is a list of pairs (low, high) of
        numbers that are exact in binary. Bisection until the margin's ball is positive everywhere,
        or a point is found at which it is certainly not.
        """
        words = {
            True: "positive on the whole box",
            False: "not positive somewhere",
            None: f"undecided after {most_boxes} boxes",
        }
        results, boxes = {}, {}
        for name, margin in self._candidates(**candidates).items():
            survives, boxes[name] = bisect(margin, box, most_boxes)
            results[name] = survives, words[survives]
        count = next((boxes[name] for name, (survives, _) in results.items() if survives), 0)
        summary = f"{_count(count, 'box', 'boxes')} of ball arithmetic"
        self._settle("certificate", summary, "what happens outside the box", results)

    def equal(self, value, *, unit=None, **candidates) -> None:
        """`exact`: arrays that agree with `value` in every entry: |a − b| ≤ 1e-9 max(|a|, |b|).

        With `unit`, |a − b| ≤ 1e-9 max(|a|, |b|, unit): for entries that are 0, or would be but
        for rounding. Without it a 0 in `value` is refused; booleans and integers have the unit 1.
        """
        numbers = _real(value)
        small = ", the small ones against a stated unit" if unit is not None else ""
        if unit is None and np.asarray(value).dtype.kind in "biu":
            unit = 1
        if unit is None and (numbers == 0).any():
            raise ValueError(
                f"{self.id}: value is 0 in {_count((numbers == 0).sum(), 'entry', 'entries')} and "
                "unit is None; accepted is a unit, relative to which a 0 is told from rounding")
        unnoticed = f"a relative error below {ROUNDING:g}"
        if unit is not None:
            unnoticed = f"an error below {ROUNDING:g} of the value or of its unit"
        unit = 0.0 if unit is None else _positive("unit", unit)
        results = {}
        for name, candidate in self._candidates(**candidates).items():
            a, b = np.broadcast_arrays(numbers, _real(candidate))
            _no_nan(self.id, name, a, b)
            scale = np.maximum(np.maximum(np.abs(a), np.abs(b)), unit)
            error = (np.abs(a - b) / scale).max()
            if error <= ROUNDING:
                survives = True
            else:
                survives = False if error >= SEPARATION else None
            how = "equal to rounding error" if survives else f"relative error {_rounded(error):.1g}"
            results[name] = survives, how
        summary = _count(numbers.size, "number", "numbers") + small
        self._settle("exact", summary, unnoticed, results)

    def law(self, sample, *, resolution: float = RESOLUTION, **candidates) -> None:
        """`monte-carlo`: candidates are continuous distribution functions.

        `sample(rng, size)` draws `size` numbers. DKW band of level ALPHA, valid at every n; n
        follows from the smallest distance between a possible truth and another candidate, so that
        whichever is true survives alone with probability 1 - ALPHA. It is never so small that a
        distribution function which is off by `resolution` would go unnoticed; give a coarser one
        where draws are dear.
        """
        cdfs = self._candidates(**candidates)
        rng = self._generator(len(self.checks) + 1)
        pilot = np.sort(self._draw(sample, rng, 2000))
        # On the pilot alone the distance is a lower bound, which errs towards more draws.
        values = {name: cdf(pilot) for name, cdf in cdfs.items()}
        n = self._draws(cdfs, lambda a, b: np.abs(values[a] - values[b]).max(), resolution)
        x = np.sort(self._draw(sample, rng, n))
        band = math.sqrt(math.log(2 / ALPHA) / (2 * n))
        steps = np.arange(n + 1) / n
        results = {}
        for name, cdf in cdfs.items():
            F = cdf(x)
            _no_nan(self.id, name, F)
            ratio = max((steps[1:] - F).max(), (F - steps[:-1]).max()) / band
            results[name] = bool(ratio <= 1), f"{_rounded(ratio):.2g} times the band"
        unnoticed = f"a distribution function off by less than {_resolved(n):g}"
        summary = f"{n} draws, DKW band at level {ALPHA:g}"
        self._settle("monte-carlo", summary, unnoticed, results)

    def share(self, event, *, resolution: float = RESOLUTION, **candidates) -> None:
        """`monte-carlo`: candidates are probabilities, or intervals (low, high) of them.

        `event(rng, size)` draws booleans. A candidate survives if the Clopper–Pearson interval of
        level ALPHA meets it; the number of draws is as in `law`, where `resolution` is of the
        probability, and the intervals are as in `reads`.
        """
        from scipy.stats import binomtest

        spans = self._intervals(self._candidates(**candidates), size=1)

        def distance(a, b):
            return max(spans[a][0] - spans[b][1], spans[b][0] - spans[a][1])

        n = self._draws(spans, distance, resolution)
        draws = self._draw(event, self._generator(len(self.checks) + 1), n)
        if draws.dtype != bool:
            raise ValueError(f"{self.id}: the event's dtype is {draws.dtype}; accepted is bool")
        hits = int(draws.sum())
        low, high = binomtest(hits, n).proportion_ci(1 - ALPHA, "exact")
        results = {
            name: (
                bool(low <= span[1] and span[0] <= high),
                f"share {hits / n:.3g} against {_span(span)}",
            )
            for name, span in spans.items()
        }
        unnoticed = f"a probability off by less than {_resolved(n):g}"
        if any(results[name][0] and low < high for name, (low, high) in spans.items()):
            unnoticed += ", or anything inside the interval"
        summary = f"{n} draws, Clopper–Pearson at level {ALPHA:g}"
        self._settle("monte-carlo", summary, unnoticed, results)

    def bound(self, reached, **candidates) -> None:
        """`search`: candidates are upper bounds of the values `reached`, or one bound for each.

        One that is exceeded is rejected. A single value is no search but a witness, which shows
        that the rivals are wrong and nothing of the survivor: its evidence is `exact`.
        """
        results = {}
        for name, candidate in self._candidates(**candidates).items():
            values, bounds = np.broadcast_arrays(_real(reached), _real(candidate))
            _no_nan(self.id, name, values, bounds)
            ratio = (values / _positive(f"{self.id}: {name}", bounds)).max()
            if ratio <= 1 + ROUNDING:
                survives = True
            else:
                survives = False if ratio >= 1 + SEPARATION else None
            results[name] = survives, f"{_rounded(ratio):.3g} of the bound is reached"
        unnoticed = "a value that was not tried"
        if np.size(reached) == 1:
            self._settle("exact", "one value, a witness", unnoticed, results)
        else:
            self._settle("search", f"{np.size(reached)} values tried", unnoticed, results)

    def reads(self, value, *, runs=None, **candidates) -> None:
        """`experiment`: candidates are intervals (low, high) that hold all of `value`.

        They are written down beforehand. An interval that abuts a possible truth is refused as a
        rival, since one of the two would win whatever came out. The best rivals are `runs`, a dict
        from a setting at which another statement is true to what was read there: the surviving
        interval must not hold it.
        """
        value, runs = _real(value), {name: _real(run) for name, run in (runs or {}).items()}
        for name, read in {"value": value, **runs}.items():
            _no_nan(self.id, name, read)
        size = np.abs(value[np.isfinite(value)]).max(initial=0)
        spans = self._intervals(self._candidates(runs, **candidates), size)

        def holds(name, read):
            return bool((spans[name][0] <= read).all() and (read <= spans[name][1]).all())

        results = {name: (holds(name, value), f"wanted {_span(spans[name])}") for name in spans}
        ends = np.abs([*spans.values()])
        largest = ends[np.isfinite(ends)].max(initial=0)
        standing = [name for name, (survives, _) in results.items() if survives]
        for name, read in runs.items():
            held = any(holds(interval, read) for interval in standing)
            results[name] = held, f"read {_span((read.min(), read.max()), largest)} there"
        summary = f"read {_span((value.min(), value.max()), largest)}"
        self._settle("experiment", summary, "anything inside the interval", results)

    def _candidates(self, runs=(), /, *, printed=None, stated=None, corrected=None, measured=None,
                    rivals=None):
        """All candidates by name, the possible truths first; `runs` are other rivals' names.

        The words of the truths are laid down for the check that follows.
        """
        truths = {
            "printed": printed,
            "stated": stated,
            "corrected": corrected,
            "measured": measured,
        }
        given = [role for role, candidate in truths.items() if candidate is not None]
        if ("printed" in given) == ("stated" in given):
            raise ValueError(f"{self.id}: given are {given}; accepted is one of printed and stated")
        if "stated" in given and len(given) > 1:
            raise ValueError(
                f"{self.id}: given are {given}; accepted beside stated are rivals, since a "
                "statement of the book's own that is wrong is mended and not corrected")
        names = [*(rivals or {}), *runs]
        if clash := [name for name in names if name in truths or names.count(name) > 1]:
            raise ValueError(
                f"{self.id}: a rival is called {clash[0]!r}; accepted are names of one rival each, "
                f"other than {', '.join(truths)}")
        if len(given) + len(names) < 2:
            raise Inconclusive(
                f"{self.id}: a single candidate is no contest; accepted is a check with a rival")
        self._says = {}
        for role in given:
            self._says[role], truths[role] = _in_words(truths[role])
        return {role: truths[role] for role in given} | dict(rivals or {})

    def _intervals(self, candidates, size):
        """The candidates as intervals; refused is one that abuts a possible truth.

        `size` is that of the values that are read: with it two ends are told from one.
        """
        spans = {}
        for name, candidate in candidates.items():
            low, high = np.broadcast_to(candidate, 2)
            _no_nan(self.id, name, low, high)
            if low > high:
                raise ValueError(
                    f"{self.id}: {name} is the interval {low:g} to {high:g}; accepted are "
                    "intervals (low, high)")
            spans[name] = low, high
            if not self._says.get(name, name):
                self._says[name] = _span(spans[name])
        for truth, other in itertools.combinations(spans, 2):
            if truth in VERDICT and _abut(spans[truth], spans[other], size):
                raise ValueError(
                    f"{self.id}: {other} is {_span(spans[other])}, which begins where {truth}, "
                    f"{_span(spans[truth])}, ends; accepted are near misses: a sharper statement "
                    "that overlaps it, one that lies clear of it, or a run at other settings")
        return spans

    def _settle(self, evidence, summary, unnoticed, results):
        """Record the check if exactly one candidate survived, surely, and may be a truth."""
        standing = [name for name, (survives, _) in results.items() if survives is not False]
        alone = standing[0] if len(standing) == 1 else None
        if alone not in VERDICT or results[alone][0] is None:
            words = {True: "survives", False: "rejected", None: "undecided"}
            lines = [
                f"{name}: {words[survives]}, {how}" for name, (survives, how) in results.items()
            ]
            raise Inconclusive(f"{self.id}: {evidence} leaves {len(standing)} candidates standing "
                               f"({'; '.join(lines)})")
        rejected = {name: how for name, (_, how) in results.items() if name != alone}
        self.checks.append(
            Check(
                evidence=evidence,
                summary=summary,
                unnoticed=unnoticed,
                survivor=alone,
                how=results[alone][1],
                says=self._says,
                rejected=rejected,
            ))

    def _generator(self, check):
        return np.random.default_rng([self.seed, *self.id.encode(), check])

    def _draws(self, candidates, distance, resolution):
        """Number of draws at which a band of level ALPHA tells every truth from all others.

        They tell it from all that is off by `resolution`, too.
        """
        number(resolution, f"{self.id}: resolution", 1e-4, 1)
        pairs = itertools.combinations(candidates, 2)
        smallest = min(distance(a, b) for a, b in pairs if a in VERDICT or b in VERDICT)
        nearest = min(smallest, resolution)
        n = 2 * math.log(2 / ALPHA) / nearest**2 if nearest > 0 else math.inf
        if not n <= MOST_DRAWS:
            raise Inconclusive(
                f"{self.id}: two candidates are only {smallest:.3g} apart, which takes {n:.2g} "
                f"draws; accepted are {MOST_DRAWS:.2g}: outside the claim's domain, or couple the "
                "noise")
        # Two digits, so that another processor's rounding cannot move it.
        digits = 10**(len(str(int(n))) - 2)
        return max(100, digits * math.ceil(n / digits))

    def _draw(self, sample, rng, size):
        starts = range(0, size, CHUNK)
        parts = [np.asarray(sample(rng, min(CHUNK, size - start))) for start in starts]
        draws = np.concatenate(parts)
        if draws.shape != (size,):
            raise ValueError(
                f"{self.id}: the sample's shape is {draws.shape}; accepted is ({size},)")
        _no_nan(self.id, "sample", draws)
        return draws


def _rounded(x):
    """`x` to ten digits, so that no rounding decides whether 0.95 is shown as 0.9 or as 1."""
    return float(f"{x:.10g}")


def require(**parameters: tuple) -> None:
    """Raise ValueError unless each parameter, `name=(value, low, high)`, is a number in its range.

    Where `low` is an integer, so must the value be. The cell behind the `parameters` cell of a
    chapter calls this.
    """
    for name, (value, low, high) in parameters.items():
        if isinstance(low, int):
            integer(value, name, low, high)
        else:
            number(value, name, low, high)


def _resolved(n):
    """What a band of level ALPHA tells apart with n draws, to one digit, rounded up."""
    width = math.sqrt(2 * math.log(2 / ALPHA) / n)
    digit = 10.0**math.floor(math.log10(width))
    return min(math.ceil(width / digit) * digit, 1.0)


def _abut(first, second, size):
    """Whether one of two intervals begins where the other ends, up to SEPARATION of their size."""
    if first[0] == first[1] and second[0] == second[1]:
        return False  # two numbers
    return any(
        abs(end - start) <= SEPARATION * max(abs(end), abs(start), size)
        for end, start in ((first[1], second[0]), (second[1], first[0]))
        if math.isfinite(end) and math.isfinite(start))


def _no_nan(id, name, *arrays):
    if any(np.size(a) == 0 or np.isnan(a).any() for a in arrays):
        raise Inconclusive(f"{id}: {name} is empty or has a NaN")


def _real(array):
    array = np.asarray(array)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"an array's dtype is {array.dtype}; accepted are real numbers")
    return array.astype(float)


def _positive(name, array):
    array = np.asarray(array, float)
    if not ((array > 0) & np.isfinite(array)).all():
        raise ValueError(f"{name} is {array.min():g}; accepted are finite numbers > 0")
    return array


def _count(count, singular, plural):
    return f"{count} {singular if count == 1 else plural}"


def _span(span, largest=0.0):
    """Two ends in words; one that is rounding beside what is `largest` differs by machine: 0."""
    rounding = min(ROUNDING, SEPARATION * largest)
    low, high = (f"{0.0 if abs(end) < rounding else float(end):.3g}" for end in span)
    return low if low == high else f"{low} to {high}"


def _in_words(candidate):
    """The words of a candidate and the candidate: of the pair, if it is one, or of a number."""
    if isinstance(candidate, tuple) and len(candidate) == 2 and isinstance(candidate[0], str):
        return candidate
    numeric = np.ndim(candidate) == 0 and np.asarray(candidate).dtype.kind in "iuf"
    return f"{candidate:.3g}" if numeric else "", candidate


def _entries(value, candidate):
    """Pairs of entries of two expressions or two matrices of one shape."""
    wanted, given = getattr(value, "shape", ()), getattr(candidate, "shape", ())
    if wanted != given:
        raise ValueError(f"a candidate's shape is {given}; accepted is the value's, {wanted}")
    return list(zip(value, candidate, strict=True)) if wanted else [(value, candidate)]
