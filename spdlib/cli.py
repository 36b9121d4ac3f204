"""The command line: `spdlib plan` foresees the error of a release."""

import argparse
import signal
import sys

from .planning import plan, records_needed, worth_refining
from .queries import frechet_sensitivity
from .spaces import Ball

HEADER = ("noise", "δ", "scale", "bare: mean", "95% within", "projected: centre", "worst",
          "shrunk: centre", "worst")


def main(argv=None):
    """Exit code: 0 where the plan is printed, 2 where a value is refused."""
    arguments = _parser().parse_args(argv)
    try:
        print(*planned(arguments), sep="\n")
        return 0
    except ValueError as error:
        print(f"spdlib: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _parser():
    parser = argparse.ArgumentParser(prog="spdlib", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    foresee = commands.add_parser("plan", help="how far a private mean will be from the mean")
    foresee.add_argument("-k", type=int, required=True, help="size of the matrices, up to 100")
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
    return parser


def planned(a):
    """Lines that say what a release costs in error, for the arguments `a` of `spdlib plan`."""
    bounds = a.low is not None, a.high is not None
    if any(bounds) == (a.radius is not None) or any(bounds) != all(bounds):
        raise ValueError(f"--radius is {a.radius}, --low {a.low}, --high {a.high}; accepted is "
                         "either --radius or both of the others")
    ball, radius = "a public centre", a.radius
    if any(bounds):
        public = Ball.from_bounds(a.low, a.high, a.k)
        radius = public.radius
        ball = f"{public.center[0, 0]:.4g}·I, which holds eigenvalues from {a.low:g} to {a.high:g}"
    rows = plan(a.k, a.n, radius, a.epsilon, a.delta)
    yield (f"ball       radius {radius:.4g} about {ball}\n"
           f"records    {a.n} of size {a.k}: one replaced moves the mean by at most "
           f"{frechet_sensitivity(a.n, radius):.4g}\n"
           f"errors     log-Euclidean distances to the mean of the clipped records: bare, and\n"
           f"           projected onto the ball, the mean at its centre or in the worst place, or\n"
           f"           shrunk towards the centre (shrink=True) and then projected\n")
    shown = [[row[0], *("–" if x is None else f"{x:.4g}" for x in row[1:])] for row in rows]
    yield aligned([HEADER, *shown])
    best, pure = min(rows[:-1], key=lambda row: row.bare), rows[-1]
    yield (f"\nAt ({a.epsilon:g}, {a.delta:g}) bare {best.mechanism} noise errs least; laplace "
           f"errs {pure.bare / best.bare:.3g} times as much, and promises more: δ = 0. "
           "“discrete gaussian”, for a release that leaves, errs as gaussian up to some ten "
           "million records.")
    if a.spread is not None:
        closer = plan(a.k, a.n, radius, a.epsilon, a.delta, (), a.spread)[-1]
        needed = worth_refining(a.k, radius, a.epsilon, a.delta, a.spread)
        yield (
            f"With records that are about {a.spread:g} from their mean, refine=\"auto\" foresees "
            f"a mean error of {closer.bare:.4g}; it pays from {needed} records on.")
    if a.error is not None:
        needed = (f"{row.mechanism} "
                  f"{records_needed(a.k, radius, a.epsilon, row.delta, a.error, row.mechanism)}"
                  for row in rows)
        yield f"Records for a mean error of {a.error:g}: {', '.join(needed)}."


def aligned(rows):
    """Rows of words as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [[entry.ljust(width) for entry, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join("  ".join(line).rstrip() for line in lines)
