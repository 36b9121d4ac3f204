"""The claims engine: contests of candidates, the verdicts that come out of them, and the ledger that collects these.

A check puts candidates side by side: the statement as `printed`, a `corrected` one, a `measured` truth, and `rivals`,
wrong statements that lie close by. Exactly one must survive, and which one it is, is the verdict. Anything else is
`Inconclusive`, which is never a verdict. Candidates come from the paper, samples and values from spdlib.
"""

import collections
import html
import itertools
import json
import math
import pathlib
import re
import tomllib

import numpy as np

ALPHA = 1e-6  # level of every statistical check; the power is 1 - ALPHA as well, since the number of draws follows from it
ROUNDING, SEPARATION = 1e-9, 1e-6  # relative errors below the first are rounding, above the second a difference
MOST_DRAWS = 5_000_000
CHUNK = 50_000
VERDICT = {"printed": "holds", "corrected": "corrected", "measured": "fails"}  # from best to worst
ID = re.compile(r"(TG|PP|RL|KN|GR|SP)-\d\d")
MIME = "application/vnd.spdlib.claim+json"


class ClaimError(Exception):
    """A claim did not come out as the book states it."""


class Inconclusive(ClaimError):
    """Not exactly one candidate survived, and that one with certainty."""


class VerdictDiffers(ClaimError):
    """The computed verdict is not the stated one."""


class claim:
    """Context in which one claim is put to the test; on leaving it, the computed verdict is shown and compared.

        with claim("TG-16", "holds", seed) as c:
            c.bound(changes, printed=2 * r / n, rivals={"r/n": r / n})

    Each verb takes `printed`, where there are such `corrected` and `measured`, and `rivals`, a dict from name to
    candidate. The verb fixes the kind of evidence. `c.rng` is a Generator for values that the chapter draws itself; every check
    has a generator of its own, from (seed, id, number of the check), so that a new cell moves no other number.
    """

    def __init__(self, id, stated, seed):
        if not ID.fullmatch(id):
            raise ValueError(f"id is {id!r}; accepted are ids such as 'TG-16'")
        if stated not in VERDICT.values():
            raise ValueError(f"stated is {stated!r}; accepted are {list(VERDICT.values())}")
        self.id, self.stated, self.seed, self.checks = id, stated, seed, []
        self.rng = self._generator(0)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is not None:
            return
        if not self.checks:
            raise Inconclusive(f"{self.id}: nothing was checked")
        survivors = {check["survivor"] for check in self.checks}
        verdict = [word for role, word in VERDICT.items() if role in survivors][-1]
        _show({"id": self.id, "stated": self.stated, "verdict": verdict, "checks": self.checks})
        if verdict != self.stated:
            raise VerdictDiffers(f"{self.id}: stated {self.stated}, computed {verdict}")

    def identity(self, value, **candidates):
        """`proof`: sympy expressions or matrices in generic symbols; the survivor's difference from `value` simplifies to 0.

        A candidate is rejected by a rational point at which ball arithmetic certifies that the difference is not 0.
        """
        import sympy

        rng = self._generator(len(self.checks) + 1)
        results = {}
        for name, candidate in self._candidates(**candidates).items():
            pairs = [(sympy.sympify(a), sympy.sympify(b)) for a, b in _entries(value, candidate)]
            differences = [a - b for a, b in pairs]
            if any(a.has(sympy.Float) or b.has(sympy.Float) for a, b in pairs):
                raise ValueError(f"{self.id}: {name} contains a floating-point number; a proof takes exact ones only")
            witness = next(filter(None, (_witness(difference, rng) for difference in differences)), None)
            if witness:
                results[name] = False, f"differs by {witness}"
            elif all(sympy.expand(difference) == 0 or sympy.simplify(difference) == 0 for difference in differences):
                results[name] = True, "the difference simplifies to 0"
            else:
                results[name] = None, "neither proved nor refuted"
        self._settle("proof", "on generic symbols", results)

    def enclosure(self, box, most_boxes=200_000, **candidates):
        """`certificate`: each candidate maps balls (`flint.arb`) to a margin that it claims to be positive on all of `box`.

        `box` is a list of pairs (low, high) of numbers that are exact in binary. Bisection until the margin's ball is
        positive everywhere, or a point is found at which it is certainly not.
        """
        results, boxes = {}, {}
        for name, margin in self._candidates(**candidates).items():
            survives, boxes[name] = _bisect(margin, box, most_boxes)
            results[name] = survives, {True: "positive on the whole box", False: "not positive somewhere",
                                       None: f"undecided after {most_boxes} boxes"}[survives]
        count = next((boxes[name] for name, (survives, _) in results.items() if survives), 0)
        self._settle("certificate", f"{count} box{'es' * (count != 1)} of ball arithmetic", results)

    def equal(self, value, **candidates):
        """`exact`: arrays that agree with `value` to rounding error, relative to the largest entry of the two."""
        results = {}
        for name, candidate in self._candidates(**candidates).items():
            a, b = np.broadcast_arrays(_real(value), _real(candidate))
            _no_nan(self.id, name, a, b)
            scale = max(np.abs(a).max(), np.abs(b).max())
            error = np.abs(a - b).max() / scale if scale else 0.0
            survives = True if error <= ROUNDING else False if error >= SEPARATION else None
            results[name] = survives, "equal to rounding error" if survives else f"relative error {error:.1g}"
        self._settle("exact", f"{np.size(value)} numbers", results)

    def law(self, sample, **candidates):
        """`monte-carlo`: candidates are continuous distribution functions, `sample(rng, size)` draws `size` numbers.

        DKW band of level ALPHA, valid at every n; n follows from the smallest distance between a possible truth
        and another candidate, so that whichever is true survives alone with probability 1 - ALPHA.
        """
        cdfs = self._candidates(**candidates)
        rng = self._generator(len(self.checks) + 1)
        pilot = np.sort(self._draw(sample, rng, 2000))
        values = {name: cdf(pilot) for name, cdf in cdfs.items()}  # a lower bound of the distance: errs towards more draws
        n = self._draws(cdfs, lambda a, b: np.abs(values[a] - values[b]).max())
        x = np.sort(self._draw(sample, rng, n))
        band = math.sqrt(math.log(2 / ALPHA) / (2 * n))
        steps = np.arange(n + 1) / n
        results = {}
        for name, cdf in cdfs.items():
            F = cdf(x)
            _no_nan(self.id, name, F)
            ratio = max((steps[1:] - F).max(), (F - steps[:-1]).max()) / band
            results[name] = bool(ratio <= 1), f"{ratio:.2g} times the band"
        self._settle("monte-carlo", f"{n} draws, DKW band at level {ALPHA:g}", results)

    def share(self, event, **candidates):
        """`monte-carlo`: candidates are probabilities or intervals (low, high) of them, `event(rng, size)` draws booleans.

        A candidate survives if the Clopper–Pearson interval of level ALPHA meets it; the number of draws is as in `law`.
        """
        from scipy.stats import binomtest

        spans = {name: self._interval(name, p) for name, p in self._candidates(**candidates).items()}
        n = self._draws(spans, lambda a, b: max(spans[a][0] - spans[b][1], spans[b][0] - spans[a][1]))
        draws = self._draw(event, self._generator(len(self.checks) + 1), n)
        if draws.dtype != bool:
            raise ValueError(f"{self.id}: the event has dtype {draws.dtype}; accepted are booleans")
        hits = int(draws.sum())
        low, high = binomtest(hits, n).proportion_ci(1 - ALPHA, "exact")
        results = {name: (bool(low <= span[1] and span[0] <= high), f"share {hits / n:.3g} against {_span(span)}")
                   for name, span in spans.items()}
        self._settle("monte-carlo", f"{n} draws, Clopper–Pearson at level {ALPHA:g}", results)

    def bound(self, reached, **candidates):
        """`search`: candidates are upper bounds of the values `reached`, one number or one for each; exceeded ones are rejected."""
        results = {}
        for name, candidate in self._candidates(**candidates).items():
            reached_, candidate = np.broadcast_arrays(np.asarray(reached, float), np.asarray(candidate, float))
            _no_nan(self.id, name, reached_, candidate)
            if not ((candidate > 0) & np.isfinite(candidate)).all():
                raise ValueError(f"{self.id}: {name} is a bound of {candidate.min():g}; accepted are finite bounds > 0")
            ratio = (reached_ / candidate).max()
            survives = True if ratio <= 1 + ROUNDING else False if ratio >= 1 + SEPARATION else None
            results[name] = survives, f"reached {ratio:.3g} times it"
        self._settle("search", f"{np.size(reached)} values tried", results)

    def reads(self, value, **candidates):
        """`experiment`: candidates are intervals (low, high), written down beforehand, that hold all of `value`."""
        value = np.asarray(value, float)
        _no_nan(self.id, "value", value)
        results = {}
        for name, span in self._candidates(**candidates).items():
            low, high = self._interval(name, span)
            results[name] = bool((low <= value).all() and (value <= high).all()), f"wanted {_span((low, high))}"
        self._settle("experiment", f"read {_span((value.min(), value.max()))}", results)

    def _candidates(self, *, printed, corrected=None, measured=None, rivals=None):
        """All candidates by name, the possible truths first."""
        truths = {"printed": printed, "corrected": corrected, "measured": measured}
        candidates = {name: c for name, c in truths.items() if c is not None} | dict(rivals or {})
        if clash := set(truths) & set(rivals or {}):
            raise ValueError(f"{self.id}: a rival is called {clash.pop()!r}; that name is a possible truth's")
        if len(candidates) < 2 or printed is None:
            raise Inconclusive(f"{self.id}: a single candidate is no contest; a check without a rival shows nothing")
        return candidates

    def _interval(self, name, span):
        low, high = np.broadcast_to(span, 2)
        _no_nan(self.id, name, low, high)
        if low > high:
            raise ValueError(f"{self.id}: {name} is the interval {low:g} to {high:g}; accepted are (low, high)")
        return low, high

    def _settle(self, evidence, summary, results):
        """Record the check if exactly one candidate survived, with certainty, and may be a truth."""
        standing = [name for name, (survives, _) in results.items() if survives is not False]
        if len(standing) != 1 or results[standing[0]][0] is None or standing[0] not in VERDICT:
            lines = "; ".join(f"{name}: {'survives' if survives else 'undecided' if survives is None else 'rejected'}, {how}"
                              for name, (survives, how) in results.items())
            raise Inconclusive(f"{self.id}: {evidence} leaves {len(standing)} candidates standing ({lines})")
        survivor = standing[0]
        self.checks.append({"evidence": evidence, "summary": summary, "survivor": survivor, "how": results[survivor][1],
                            "rejected": {name: how for name, (_, how) in results.items() if name != survivor}})

    def _generator(self, check):
        return np.random.default_rng([self.seed, *self.id.encode(), check])

    def _draws(self, candidates, distance):
        """Number of draws at which a band of level ALPHA tells every possible truth from every other candidate."""
        smallest = min(distance(a, b) for a, b in itertools.combinations(candidates, 2) if a in VERDICT or b in VERDICT)
        n = 2 * math.log(2 / ALPHA) / smallest**2 if smallest > 0 else math.inf
        if not n <= MOST_DRAWS:
            raise Inconclusive(f"{self.id}: two candidates are only {smallest:.3g} apart, which takes {n:.2g} draws; "
                               f"accepted are {MOST_DRAWS:.2g}: outside the claim's domain, or couple the noise")
        digits = 10 ** (len(str(int(n))) - 2)
        return max(100, digits * math.ceil(n / digits))  # two digits, so that another processor's rounding cannot move it

    def _draw(self, sample, rng, size):
        parts = [np.asarray(sample(rng, min(CHUNK, size - start))) for start in range(0, size, CHUNK)]
        draws = np.concatenate(parts)
        if draws.shape != (size,):
            raise ValueError(f"{self.id}: the sample has shape {draws.shape}; accepted is ({size},)")
        _no_nan(self.id, "sample", draws)
        return draws


def require(**parameters):
    """Raise ValueError unless each parameter, given as `name=(value, low, high)`, is a number within its closed range.

    Where `low` is an integer, so must the value be. The cell behind the `parameters` cell of a chapter calls this.
    """
    for name, (value, low, high) in parameters.items():
        kind = int if isinstance(low, int) else (int, float)
        if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
            raise ValueError(f"{name} is {value!r}; accepted are {'integers' if kind is int else 'numbers'} from {low} to {high}")


def _no_nan(id, name, *arrays):
    if any(np.size(a) == 0 or np.isnan(a).any() for a in arrays):
        raise Inconclusive(f"{id}: {name} is empty or has a NaN")


def _real(array):
    array = np.asarray(array)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"an array has dtype {array.dtype}; accepted are real numbers")
    return array.astype(float)


def _span(span):
    low, high = (f"{float(s):.3g}" for s in span)
    return low if low == high else f"{low} to {high}"


def _entries(value, candidate):
    """Pairs of entries of two expressions or two matrices of one shape."""
    shapes = getattr(value, "shape", ()), getattr(candidate, "shape", ())
    if shapes[0] != shapes[1]:
        raise ValueError(f"shapes {shapes[0]} and {shapes[1]} differ; accepted is one shape for all candidates")
    return list(zip(value, candidate)) if shapes[0] else [(value, candidate)]


def _witness(difference, rng):
    """A rational point, in words, at which the expression is certified not to be 0; None where none was found."""
    import sympy

    for _ in range(12):
        whole = {s: _point(s, rng) for s in sorted((s for s in difference.free_symbols if s.is_integer), key=str)}
        expression = difference.subs(whole).doit()  # sums have definite ends now
        indexed = expression.atoms(sympy.Indexed)
        labels = {entry.base.label for entry in indexed}
        point = whole | {s: _point(s, rng) for s in sorted(indexed | (expression.free_symbols - labels), key=str)}
        expression = expression.subs(point)
        try:
            ball = _ball(expression)
        except (ValueError, ZeroDivisionError, TypeError, AttributeError, IndexError):
            continue
        if not ball.contains(0):  # false for a ball of NaN, which contains everything
            at = ", ".join(f"{symbol} = {value}" for symbol, value in point.items())
            return f"{float(ball.mid()):.2g}" + (f" at {at}" if 0 < len(point) <= 4 else " at a rational point" if point else "")
    return None


def _point(symbol, rng):
    """A rational number that has the symbol's properties."""
    import sympy

    for _ in range(1000):
        value = sympy.Rational(int(rng.integers(-20, 20)), 1 if symbol.is_integer else 7)
        if all(getattr(value, f"is_{property}") is has for property, has in symbol.assumptions0.items()):
            return value
    raise ValueError(f"{symbol} is assumed to be {symbol.assumptions0}; no rational number n/7 from -3 to 3 was found to be that")


def _ball(expression):
    """Ball (`flint.arb`) that certainly holds the value of a constant sympy expression."""
    import flint
    import sympy

    if expression.is_Rational:
        return flint.arb(flint.fmpq(int(expression.p), int(expression.q)))
    if expression is sympy.pi:
        return flint.arb.pi()
    if expression is sympy.E:
        return flint.arb(1).exp()
    balls = [_ball(a) for a in expression.args]
    if expression.is_Add:
        return sum(balls, flint.arb(0))
    if expression.is_Mul:
        return math.prod(balls, start=flint.arb(1))
    if expression.is_Pow:
        base, exponent = balls
        if expression.exp is sympy.S.Half:
            return base.sqrt()
        return base ** int(expression.exp) if expression.exp.is_Integer else base**exponent
    name = expression.func.__name__
    if name not in {"Abs", "exp", "log", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "erf", "erfc", "gamma"}:
        raise ValueError(f"no ball of {name}")
    return abs(balls[0]) if name == "Abs" else getattr(balls[0], name)()


def _bisect(margin, box, most_boxes):
    """Whether the margin is positive on the whole box (None: undecided), and the number of boxes that took."""
    import flint

    todo, count = collections.deque([[(flint.arb(low), flint.arb(high)) for low, high in box]]), 0
    while todo:
        if count == most_boxes:
            return None, count
        sides, count = todo.popleft(), count + 1  # breadth first: a zero in one corner hides nothing elsewhere
        if margin(*(low.union(high) for low, high in sides)) > 0:
            continue
        middles = [((low + high) / 2).mid() for low, high in sides]
        if margin(*middles) <= 0:
            return False, count
        widest = max(range(len(sides)), key=lambda i: float((sides[i][1] - sides[i][0]).mid()))
        low, high = sides[widest]
        todo += [sides[:widest] + [half] + sides[widest + 1:] for half in ((low, middles[widest]), (middles[widest], high))]
    return True, count


def _show(record):
    """Show a claim's record to the reader as one block, and to programs as JSON."""
    from IPython.display import display

    def line(check):
        lost = "; ".join(f"{name} ({how})" for name, how in check["rejected"].items())
        return f"{check['evidence']}, {check['summary']}: the {check['survivor']} statement survives ({check['how']}); rejected: {lost}"

    def item(check):
        lost = "; ".join(f"<i>{html.escape(name)}</i> ({html.escape(how)})" for name, how in check["rejected"].items())
        return (f"<li><b>{check['evidence']}</b> {html.escape(check['summary'])}: the {check['survivor']} statement survives "
                f"({html.escape(check['how'])})<br><small>rejected: {lost}</small></li>")

    block = (f'<div class="claim claim-{record["verdict"]}"><p><a href="18_ledger.html#ledger-{record["id"]}">{record["id"]}</a> '
             f'<strong>{record["verdict"]}</strong></p><ul>{"".join(map(item, record["checks"]))}</ul></div>')
    text = "\n".join([f"{record['id']} {record['verdict']}", *(f"  {line(check)}" for check in record["checks"])])
    display({MIME: record, "text/html": block, "text/plain": text}, raw=True)


def read_claims(book):
    """The papers and the claims of `claims.toml`: a pair of dicts. `book` is the folder of the chapters."""
    table = tomllib.loads((pathlib.Path(book) / "claims.toml").read_text(encoding="utf-8"))
    return table.pop("papers"), table


def recorded(chapter):
    """Records of the claims in a chapter's outputs, as the engine displayed them: a list of dicts."""
    cells = json.loads(pathlib.Path(chapter).read_text(encoding="utf-8"))["cells"]
    return [output["data"][MIME] for cell in cells for output in cell.get("outputs", ()) if MIME in output.get("data", {})]


def statements(chapter):
    """Statements of a chapter's theorem directives: a dict from label to text."""
    cells = json.loads(pathlib.Path(chapter).read_text(encoding="utf-8"))["cells"]
    prose = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    directive = r"^(?P<fence>:{3,}|`{3,})\{prf:\w+\}[^\n]*\n(?::\w+:[^\n]*\n)*?:label: (?P<label>\S+)\n(?::\w+:[^\n]*\n)*(?P<body>.*?)^(?P=fence)\s*$"
    return {match["label"]: match["body"].strip() for match in re.finditer(directive, prose, re.M | re.S)}


def ledger(book):
    """The ledger, made from the recorded outputs and nothing else: a list of dicts, one a claim of `claims.toml`."""
    papers, claims = read_claims(book)
    found = {}
    for chapter in sorted(pathlib.Path(book).glob("[0-9]*.ipynb")):
        texts = statements(chapter)
        for record in recorded(chapter):
            found.setdefault(record["id"], []).append((chapter.stem, record, texts))
    rows = []
    for id, entry in claims.items():
        records = found.get(id, [])
        if len({chapter for chapter, _, _ in records}) > 1:
            raise ClaimError(f"{id}: tested in more than one chapter: {sorted({chapter for chapter, _, _ in records})}")
        if bool(records) == ("untested" in entry):
            raise ClaimError(f"{id}: " + ("tested, but listed as untested" if records else "neither tested in a chapter nor listed as untested"))
        chapter, texts = (records[0][0], records[0][2]) if records else (entry["chapter"], statements(pathlib.Path(book) / f"{entry['chapter']}.ipynb"))
        checks = [check for _, record, _ in records for check in record["checks"]]
        verdicts = [record["verdict"] for _, record, _ in records]
        if id not in texts:
            raise ClaimError(f"{id}: no statement; no theorem directive of {chapter} has it for a label")
        rows.append({
            "id": id,
            "paper": papers[id[:2]]["title"],
            "where": entry["where"],
            "statement": texts[id],
            "verdict": max(verdicts, key=list(VERDICT.values()).index) if verdicts else "untested",
            "correction": texts.get(f"{id}-corrected", ""),
            "evidence": [{"kind": check["evidence"], "summary": check["summary"]} for check in checks],
            "rivals": sorted({name for check in checks for name in check["rejected"]} - set(VERDICT)),
            "uses": entry.get("uses", []),
            "chapter": chapter,
            "anchor": id,
        })
    if unknown := set(found) - set(claims):
        raise ClaimError(f"{sorted(unknown)}: tested in a chapter, but not listed in claims.toml")
    return rows


def rests_on(rows):
    """For each claim the claims it uses, directly or not, that do not hold: a dict. Raises ClaimError where uses go round."""
    by_id = {row["id"]: row for row in rows}
    if unknown := {used for row in rows for used in row["uses"]} - set(by_id):
        raise ClaimError(f"{sorted(unknown)}: used by a claim, but not listed in claims.toml")
    seen = {}

    def below(id, path):
        if id in path:
            raise ClaimError(f"{id}: its uses go round in a circle: {' → '.join([*path[path.index(id):], id])}")
        if id not in seen:
            seen[id] = set().union(*({used} | below(used, [*path, id]) for used in by_id[id]["uses"]))
        return seen[id]

    return {id: sorted(used for used in below(id, []) if by_id[used]["verdict"] != "holds") for id in by_id}
