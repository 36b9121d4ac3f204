"""What `refine="auto"` saves, beside a ball in hindsight and two peers, all at the same μ.

All errors are root mean squares, over data sets and noise, of the distance between a release and
the mean of *all* records, none of them clipped: bias counts. One record is replaced, n is public,
and each way has all of μ² (ρ = μ²/2). An entry is an error ± its standard error.

*In hindsight* is the ball of one who knows the population but not the sample: its centre is the
mean of as many records drawn anew, with repetition, and its radius holds the share of the records,
one for all data sets, at which the error is least. So a radius of 0, which about the sample mean
itself would err by nothing, errs as sampling does. Beside it is the chapter's: about the sample
mean, 90% of the records.

*CoinPress* is Algorithm 1 of Biswas, Dong, Kamath and Ullman (2020), written from the paper, since
the public code (github.com/twistedcubic/coin-press) has no licence; like that code it clips at the
tail bound of one record and gives a fourth of ρ to all steps before the last. It has to be told the
spread: here a coordinate's true standard deviation, or 3 or 10 times as much. *Shifted* is the
shifted clipped mean of Huang, Liang and Yi (2021), from the paper: a random rotation, medians by
noisy binary search, a radius by another, a clipped mean. It searches the public ball, or with *no
bounds* whatever float64 holds. What peers release is projected to the ball, and row by row they
have the settings that err least, found on one half of the data sets for the other, as nobody could.

    SPDLIB_DATA=/path/to/sets python benchmarks/no_ball.py [DATA SETS A ROW]
"""

import itertools
import math
import os
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from spdlib import Ball, PrivateFrechetMean, expm, invvecd, logm, plan, vecd  # noqa: E402
from spdlib.calibration import gdp_mu  # noqa: E402
from spdlib.descriptors import covariance_descriptors  # noqa: E402
from spdlib.spaces.ball import project_to_ball  # noqa: E402

EPSILON, DELTA, SIGMA, N, DECADES = 1.0, 1e-6, 0.3, 2000, 6
MU = gdp_mu(EPSILON, DELTA)
SHARES = (0.9, 0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.95, 0.98, 1)
COINPRESS = list(itertools.product((1, 2, 3, 4, 6), (0.3, 0.1, 0.01)))  # steps, tails
FACTORS = {"CoinPress, σ": 1, "CoinPress, 3σ": 3, "CoinPress, 10σ": 10}
DEPTHS = {"shifted": (6, 8, 10, 12), "shifted, no bounds": (14, 16, 18, 20)}  # of a search
SPLITS = 1 / 4, 1 / 10  # what a search has of ρ
SLACKS = 3, 4  # its margin below n in standard deviations; with 1 a search misses now and then
LARGEST = 745.2  # absolute value of the logarithm of a positive float64, at most
WIDTHS, SIZES = range(1, 9), (200, 400, 800, 2000, 6000, 20_000)
LIMITS = {"Gaussian": 2.0, "t₃": 2.7, "skewed": 1.6, "clustered": 1.6}
REAL, FEWEST = 2.0, 800  # the limit for real sets, and their size from which it is stated
PEERS, BALLS = [*FACTORS, *DEPTHS], ["in hindsight", "90% about the mean"]
HEADER = ["records", "n", "bounds / data", "direct", "refined", *BALLS, "least at",
          "refined / in hindsight", "refined / 90%", *PEERS, "`plan`", "ahead of", "behind"]


def clusters(rng, n):
    """Half, three and two tenths of the records about three centres, with a fifth of variance."""
    shares, centres = np.array([0.5, 0.3, 0.2]), math.sqrt(4.8 / 0.62) * np.eye(3, 6)
    about = centres[rng.choice(3, n, p=shares)] - shares @ centres
    return about + math.sqrt(0.2) * rng.standard_normal((n, 6))


SHAPES = {  # of mean 0, and of mean squared length 6
    "Gaussian": lambda rng, n: rng.standard_normal((n, 6)),
    "t₃": lambda rng, n: rng.standard_normal((n, 6)) / np.sqrt(
        np.maximum(rng.chisquare(3, (n, 1)), 0.003)),  # or float64 does not hold the exponential
    "skewed": lambda rng, n: rng.standard_exponential((n, 6)) - 1,
    "clustered": clusters,
}


def clipped_mean(y, center, radius):
    """Mean of the records clipped to a ball, shape (d,)."""
    steps = y - center
    lengths = np.sqrt(np.einsum("ij,ij->i", steps, steps))
    return center + np.minimum(1, radius / np.maximum(lengths, 1e-300)) @ steps / len(y)


def noisy_mean(y, center, radius, mu, rng):
    noise = rng.standard_normal(y.shape[1])
    return clipped_mean(y, center, radius) + 2 * radius / (len(y) * mu) * noise


def coinpress(y, radius, sigma, steps, beta, rng):
    """CoinPress about 0 for a mean in this radius, where no standard deviation exceeds sigma."""
    n, d = y.shape
    log = math.log(1 / beta)
    gamma = math.sqrt(d + 2 * math.sqrt(d * log) + 2 * log)
    center, r = np.zeros(d), radius / sigma
    for part in [1] if steps == 1 else [*(steps - 1) * [0.25 / (steps - 1)], 0.75]:
        reach, mu = r + gamma, MU * math.sqrt(part)
        center = noisy_mean(y, center, sigma * reach, mu, rng)
        r = gamma * math.sqrt(1 / n + (2 * reach / (n * mu))**2)
    return center


def search(values, low, high, wanted, depth, mu, rng):
    """Where the noisy number of values below reaches `wanted`, in so many halvings of mu in all."""
    for noise in math.sqrt(depth) / mu * rng.standard_normal(depth):
        middle = (low + high) / 2
        enough = np.count_nonzero(values <= middle) + noise > wanted
        low, high = (low, middle) if enough else (middle, high)
    return (low + high) / 2


def shifted(y, reach, depth, split, slack, rng):
    """The shifted clipped mean of records whose coordinates are no longer than `reach`."""
    n, d = y.shape
    turned, _ = np.linalg.qr(rng.standard_normal((d, d)))
    z, each, rest = y @ turned, MU * math.sqrt(split / d), MU * math.sqrt(1 - split)
    center = np.array([search(x, -reach, reach, n / 2, depth, each, rng) for x in z.T.copy()])
    radii, means = rest * math.sqrt(split), rest * math.sqrt(1 - split)
    wanted = n - 2 * math.sqrt(d) / means - slack * math.sqrt(depth) / radii
    lengths = np.linalg.norm(z - center, axis=1)
    radius = search(lengths, 0, 2 * reach, max(wanted, n / 2), depth, radii, rng)
    return noisy_mean(z, center, radius, means, rng) @ turned.T


def in_balls(y, center, shares, rng):
    """Mean squared errors in balls about this centre that hold these shares of the records."""
    z, found = rng.standard_normal((40, y.shape[1])), []
    for radius in np.quantile(np.linalg.norm(y - center, axis=1), shares):
        mean = clipped_mean(y, center, radius) - center
        steps = project_to_ball(mean + 2 * radius / (len(y) * MU) * z, radius)
        found.append(((center + steps - y.mean(axis=0))**2).sum(axis=1).mean())
    return found


def squares(X, ball, sigma, rng):
    """Squared errors of each way for one data set, by its settings."""
    center = ball.space.coordinates(ball.center)
    y = vecd(logm(X)) - center
    mean, again = y.mean(axis=0), y[rng.integers(len(y), size=len(y))].mean(axis=0)
    found = dict(zip(BALLS, (in_balls(y, again, SHARES, rng), in_balls(y, mean, SHARES[:1], rng)),
                     strict=True))

    def off(way, settings=((),)):
        return [((project_to_ball(way(*each), ball.radius) - mean)**2).sum() for each in settings]

    for name, refine in ("direct", None), ("refined", "auto"):
        private = PrivateFrechetMean(EPSILON, DELTA, ball, refine=refine).fit(X, rng=rng)
        found[name] = [((private.log_mean_ - center - mean)**2).sum()]
    for name, factor in FACTORS.items():
        found[name] = off(lambda *each, s=factor * sigma: coinpress(y, ball.radius, s, *each, rng),
                          COINPRESS)
    far = LARGEST * math.sqrt(len(ball.center)) + np.linalg.norm(center)
    for (name, depths), reach in zip(DEPTHS.items(), (ball.radius, far), strict=True):
        found[name] = off(lambda *each, reach=reach: shifted(y, reach, *each, rng),
                          itertools.product(depths, SPLITS, SLACKS))
    return found


def least(found):
    """Squared errors by data sets, at the setting that errs least on the other half of them."""
    halves = found[::2], found[1::2]
    return np.concatenate([np.array(half)[:, np.mean(other, axis=0).argmin()]
                           for half, other in (halves, halves[::-1])])


def measure(name, draw, crowd, spread, repeats, decades):
    """A row, and what the goals ask of it: draw(rng) makes a data set, and a crowd has its bounds.

    Those are a hundredth of the crowd's eigenvalues off either end; the public ones are wider by so
    many decades, three quarters of them below, so that the records are off the ball's centre.
    """
    n, k, _ = draw(np.random.default_rng(0)).shape
    low, high = np.quantile(np.linalg.eigvalsh(crowd), [0.01, 0.99])
    ball = Ball.from_bounds(low / 10**(0.75 * decades), high * 10**(decades / 4), k)
    each, sigma = [], spread / math.sqrt(k * (k + 1) / 2)
    for seed in range(repeats):
        rng = np.random.default_rng([n, seed])
        each.append(squares(draw(rng), ball, sigma, rng))
    best = {way: least([found[way] for found in each]) for way in each[0]}
    share = SHARES[np.mean([found["in hindsight"] for found in each], axis=0).argmin()]
    error = {way: math.sqrt(found.mean()) for way, found in best.items()}
    scaled = {way: best[way] / error[way]**2 for way in best}  # the mean is 1
    off = {way: scaled[way].std(ddof=1) / (2 * math.sqrt(repeats)) for way in best}
    ratios = {way: error["refined"] / error[way] * np.array(
        [1, (scaled["refined"] - scaled[way]).std(ddof=1) / (2 * math.sqrt(repeats))])
        for way in BALLS}
    rows = plan(k, n, ball.radius, EPSILON, DELTA, ["gaussian"], spread=spread)
    worth = rows[-1].bare < rows[0].bare
    low, high = ({way: error[way] * (1 + sign * 2 * off[way]) for way in best} for sign in (-1, 1))
    ahead = [way for way in PEERS if high["refined"] < low[way]]
    behind = [way for way in PEERS if high[way] < low["refined"]]
    shown = {way: f"{error[way]:.3g} ± {error[way] * off[way]:.1g}" for way in error}
    print(f"{name}, n = {n}, 10^{decades}: {shown['refined']}", file=sys.stderr, flush=True)
    row = [name, f"{n:,}", f"10^{decades}", *map(shown.get, ("direct", "refined", *BALLS)),
           f"{share:.0%}", *(f"**{ratio:.2f} ± {off:.2f}**" for ratio, off in ratios.values()),
           *map(shown.get, PEERS), "worthwhile" if worth else "no", "; ".join(ahead),
           "; ".join(behind)]
    return row, (name, n, decades, worth, ahead, behind, ratios)


def simulated(name, n, repeats, decades):
    def draw(rng, size=n):
        return expm(invvecd(SIGMA * SHAPES[name](rng, size)))

    crowd = draw(np.random.default_rng(1), 20_000)
    return measure(name, draw, crowd, SIGMA * math.sqrt(6), repeats, decades)


def real(repeats):
    """Rows of real sets, with those of SPDLIB_DATA where it names a folder."""
    from sklearn.datasets import load_digits

    sets = {"digits": covariance_descriptors(load_digits().images.astype(np.uint8) * 15, 1e-6)}
    for file in "dti_spd3.npz", "emg_cov8.npz":
        path = pathlib.Path(os.environ.get("SPDLIB_DATA", ""), file)
        if path.is_file():
            arrays = np.load(path)
            sets |= {f"{file[:3]}, {part}": arrays[part] for part in arrays if part != "labels"}
    for name, X in sets.items():
        spread = math.sqrt(vecd(logm(X)).var(axis=0).sum())
        yield measure(name, lambda rng, X=X: X, X, spread, repeats, DECADES)


def table(title, found):
    print(f"\n## {title}\n\n| {' | '.join(HEADER)} |\n|{len(HEADER) * '---|'}")
    for row, _ in found:
        print(f"| {' | '.join(row)} |", flush=True)


def goals(found):
    """The ratios of the claim with verdicts by two standard errors, and who is ahead of whom."""
    for name, n, decades, *_, ratios in found:
        if decades == DECADES and (n == N if name in LIMITS else n >= FEWEST):
            for way, (ratio, off) in ratios.items():
                limit = LIMITS.get(name, REAL)
                word = "holds" if ratio + 2 * off <= limit else "is not decided" \
                    if ratio - 2 * off <= limit else "does not hold"
                print(f"- {name}, n = {n:,}, {way}: {ratio:.2f} ± {off:.2f}, {limit} {word}")
    worth = [(ahead, behind) for *_, worth, ahead, behind, _ in found if worth]
    for way in PEERS:
        ahead, behind = (sum(way in each[side] for each in worth) for side in (0, 1))
        print(f"- {way}: in {len(worth)} rows that `plan` calls worthwhile refining is ahead in "
              f"{ahead}, behind in {behind}")


if __name__ == "__main__":
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    print(f"ε = {EPSILON:g}, δ = {DELTA:g}, μ = {MU:.4f}; {repeats} data sets a row; of real sets, "
          "as many releases of one")
    widths = [simulated(name, N, repeats, decades) for name in SHAPES for decades in WIDTHS]
    table(f"Against the width of the bounds, n = {N:,}", widths)
    sizes = [simulated(name, n, repeats, DECADES) for name in SHAPES for n in SIZES if n != N]
    table(f"Against n, bounds of 10^{DECADES} times the quotient of the data", sizes)
    sets = list(real(repeats))
    table("Real sets, whole", sets)
    print("\n## Goals\n")
    goals([verdicts for _, verdicts in widths + sizes + sets])
