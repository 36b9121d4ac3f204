"""The command line: `plan` foresees the error of a release, `release` makes one of a file."""

import argparse
import signal
import sys
import tokenize
import warnings

import numpy as np

from ._checks import integer
from .accounting.regions import checked_level
from .estimators import PrivateFrechetMean
from .estimators.base import warn_of_delta
from .planning import plan, records_needed, worth_refining
from .queries import frechet_sensitivity
from .spaces import AffineInvariant, Ball, KendallPlanar, LogEuclidean, Sphere
from .spaces.ball import POLICIES

SPACES = {
    "log-euclidean": LogEuclidean,
    "affine-invariant": AffineInvariant,
    "sphere": Sphere,
    "shapes": KendallPlanar
}
HEADER = ("noise", "δ", "scale", "bare: mean", "95% within", "projected: centre", "worst",
          "shrunk: centre", "worst")


def main(argv=None):
    """Exit code: 0 where all is printed, 2 where a value or a file is refused."""
    arguments, lines = _parser().parse_args(argv), None
    try:
        if sys.stdout is None:
            raise ValueError("standard output is closed; accepted is one that takes what is "
                             "printed")
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            lines = [*arguments.lines(arguments)]
        for each in warned:
            print(f"spdlib: {each.message}", file=sys.stderr)
        print(*lines, sep="\n", flush=True)
        return 0
    except (ValueError, OSError, ImportError) as error:
        drawn = lines is not None and arguments.lines is released
        spent = "; the mean was drawn, so that its promise is spent" if drawn else ""
        print(f"spdlib: {error}{spent}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _parser():
    parser = argparse.ArgumentParser(prog="spdlib", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    foresee = commands.add_parser("plan", help="how far a private mean will be from the mean")
    foresee.set_defaults(lines=planned)
    foresee.add_argument(
        "-k", type=int, required=True, help="size of the matrices, "
        "dimension of the sphere, or number of landmarks, up to 100")
    foresee.add_argument("--space", choices=SPACES, default="log-euclidean", help="of the records")
    foresee.add_argument("--tangent", action="store_true", help="statistic=\"tangent\"")
    foresee.add_argument("-n", type=int, required=True, help="number of records")
    foresee.add_argument("--radius", type=float, help="of the public ball that holds the records")
    foresee.add_argument("--low", type=float, help="in place of --radius, public bounds on")
    foresee.add_argument("--high", type=float, help="the eigenvalues of a record")
    foresee.add_argument("--epsilon", type=float, required=True, help="of the promise")
    foresee.add_argument("--delta", type=float, required=True, help="of the promise")
    foresee.add_argument(
        "--spread", type=float, metavar="GUESS",
        help="root mean squared distance of the records from their mean, a guess "
        "that is not read off the data: does it pay to draw the ball closer?")
    foresee.add_argument("--error", type=float, metavar="WANTED",
                         help="mean error that is wanted: how many records does it take?")
    release = commands.add_parser(
        "release", help="the private mean of SPD matrices, as a document with a region",
        description="Prints the document of a private mean of SPD matrices, in a ball that is "
        "drawn closer where that pays, with their spread, the number of those clipped and a "
        "region for the mean of the population. Each call spends its promise again.")
    release.set_defaults(lines=released)
    release.add_argument("file", help="of an array of shape (n, k, k), as numpy.save writes it")
    release.add_argument("--low", type=float, required=True,
                         help="in the unit of the records, public")
    release.add_argument("--high", type=float, required=True, help="bounds on their eigenvalues")
    release.add_argument("--epsilon", type=float, required=True, help="of the promise")
    release.add_argument("--delta", type=float, required=True, help="of the promise")
    release.add_argument("--level", type=float, default=0.95, help="of the region")
    release.add_argument(
        "--mechanism", choices=("discrete gaussian", "gaussian"), default="discrete gaussian",
        help="the second needs no OpenDP, and promises nothing of the last bits of floats")
    release.add_argument("--on-invalid", choices=POLICIES, default="raise",
                         help="what happens to a record that is not SPD")
    return parser


def planned(a):
    """Lines that say what a release costs in error, for the arguments `a` of `spdlib plan`."""
    bounds = a.low is not None, a.high is not None
    if any(bounds) == (a.radius is not None) or any(bounds) != all(bounds):
        raise ValueError(f"--radius is {a.radius}, --low {a.low}, --high {a.high}; accepted is "
                         "either --radius or both of the others")
    ball = _ball(a)
    where = "a public centre"
    if any(bounds):
        where = (f"{ball.center[0, 0]:.4g}·I, which holds eigenvalues from {a.low:g} to "
                 f"{a.high:g}")
    asked = ball.tangent() if a.tangent else ball
    rows, flat = plan(asked, a.n, a.epsilon, a.delta), asked.space.flat
    moved = frechet_sensitivity(a.n, asked.radius, asked.space)
    distances = "log-Euclidean distances" if a.space == "log-euclidean" else "lengths in the chart"
    errors = [f"{distances} to the mean of the clipped records: bare"]
    if flat:
        errors = [
            f"{errors[0]}, and", "projected onto the ball, where the mean is its centre or "
            "lies worst, or", "shrunk towards the centre (shrink=True) and then projected"
        ]
    indented = f"\n{11 * ' '}".join(errors)
    yield (f"ball       radius {ball.radius:.4g} about {where}\n"
           f"records    {a.n} of size {a.k}: one replaced moves the mean by at most {moved:.4g}\n"
           f"errors     {indented}\n")
    shown = [[row[0], *("–" if x is None else f"{x:.4g}" for x in row[1:])] for row in rows]
    yield aligned([HEADER, *shown])
    best = min(rows, key=lambda row: row.bare)
    more = ", and promises more: δ = 0" if a.delta else ""
    said = [f"bare {best.mechanism} noise errs least{'' if best.delta else more}"]
    said += [
        f"{row.mechanism} errs {row.bare / best.bare:.3g} times as much{more}" for row in rows
        if not row.delta and row is not best
    ]
    yield f"\nAt ({a.epsilon:g}, {a.delta:g}) {'; '.join(said)}."
    if flat:
        yield ("“discrete gaussian”, for a release that leaves, errs as gaussian up to some ten "
               "million records.")
    warn_of_delta(a.delta, a.n)
    if a.spread is None and flat:
        yield "With --spread GUESS it also says whether refine=\"auto\" pays."
    if a.spread is not None:
        closer = plan(asked, a.n, a.epsilon, a.delta, (), a.spread)[-1]
        needed = worth_refining(asked, a.epsilon, a.delta, a.spread)
        yield (
            f"With records that are about {a.spread:g} from their mean, refine=\"auto\" foresees "
            f"a mean error of {closer.bare:.4g}; it pays from {needed} records on.")
    if a.error is not None:
        needed = (f"{row.mechanism} "
                  f"{records_needed(asked, a.epsilon, row.delta, a.error, row.mechanism)}"
                  for row in rows)
        yield f"Records for a mean error of {a.error:g} in the ball as it is: {', '.join(needed)}."


def released(a):
    """The document of a private mean, for the arguments `a` of `spdlib release`."""
    try:
        records = np.lib.format.open_memmap(a.file, mode="r")
    except (ValueError, SyntaxError, tokenize.TokenError) as error:  # of the header
        raise ValueError(f"file is {a.file!r} ({error}); accepted is a .npy file, as "
                         "numpy.save writes it") from error
    if records.ndim != 3:
        raise ValueError(f"{a.file!r} has an array of shape {records.shape}; accepted is (n, k, k)")
    checked_level(a.level)  # or the mean would be drawn first, and lost
    private = PrivateFrechetMean(a.epsilon, a.delta,
                                 Ball.from_bounds(a.low, a.high, records.shape[-1]), a.mechanism,
                                 a.on_invalid, refine="auto", spread=True, count=True)
    yield private.fit(records).release_.with_region(a.level).to_json()


def _ball(a):
    """The public ball; where its centre lies changes no error."""
    space = SPACES[a.space](integer(a.k, "k", 1, 100))
    if a.radius is None:
        if a.space != "log-euclidean":
            raise ValueError(f"--low is {a.low} on {space!r}; accepted is --radius")
        return Ball.from_bounds(a.low, a.high, a.k)
    center = np.eye(*space.shape) if len(space.shape) == 2 else np.eye(space.shape[0])[0]
    if a.space == "shapes":
        center = space.points(np.exp(2j * np.pi * np.arange(a.k) / a.k))
    return Ball(a.radius, center, space)


def aligned(rows):
    """Rows of words as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [[entry.ljust(width) for entry, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join("  ".join(line).rstrip() for line in lines)
