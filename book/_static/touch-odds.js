// The opening, to touch: ε and n move the private means, the attack on each, and the odds.
(() => {
  const {number, element, drawn, sliders, panel, axes, range, density, normal, gaussianMu} = touch;
  const DELTA = 1e-6, DRAWS = 30;
  // The study: Ada's record and the exact mean (µV²), and the hospital's bounds (µV)
  const study = {ada: [[1600, 660], [660, 484]], mean: [[179.6, 77.6], [77.6, 197.2]],
                 bounds: [5, 50]};

  // A function of a symmetric 2 × 2 matrix, by its eigenvalues
  function matrixFunction(f, [[a, b], [, c]]) {
    const half = (a + c) / 2, gap = Math.hypot((a - c) / 2, b);
    const high = f(half + gap), low = f(half - gap), mean = (high + low) / 2;
    const slope = gap ? (high - low) / (2 * gap) : 0;
    return [[mean + slope * (a - half), slope * b], [slope * b, mean + slope * (c - half)]];
  }
  // A record has three coordinates: the logarithm's diagonal, then √2 times what is beside it
  function up(X) {
    const [[a, b], [, c]] = matrixFunction(Math.log, X);
    return [a, c, Math.SQRT2 * b];
  }
  const down = ([a, c, b]) => matrixFunction(Math.exp, [[a, b / Math.SQRT2], [b / Math.SQRT2, c]]);

  const log = study.bounds.map(bound => 2 * Math.log(bound));
  const center = [(log[0] + log[1]) / 2, (log[0] + log[1]) / 2, 0];
  const radius = (log[1] - log[0]) / 2 * Math.SQRT2;
  const [ada, mean] = [up(study.ada), up(study.mean)];
  function pulledBack(y) {
    const away = y.map((part, i) => part - center[i]), share = radius / Math.hypot(...away);
    return share < 1 ? away.map((part, i) => center[i] + share * part) : y;
  }
  const apart = (y, z) => Math.hypot(...y.map((part, i) => part - z[i]));
  const median = all => {
    const order = [...all].sort((a, b) => a - b), i = order.length >> 1;
    return order.length % 2 ? order[i] : (order[i - 1] + order[i]) / 2;
  };

  // Standard normal numbers, the same for a seed on every visit
  function draws(seed) {
    const uniform = () => {
      seed = seed + 0x6D2B79F5 | 0;
      let t = Math.imul(seed ^ seed >>> 15, 1 | seed);
      t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
      return ((t ^ t >>> 14) >>> 0) / 2 ** 32;
    };
    const one = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
    return Array.from({length: DRAWS}, () => [one(), one(), one()]);
  }

  // All that the figure shows: the noise, private means, guesses (in coordinates), and the odds
  function release(epsilon, n, noise) {
    const mu = gaussianMu(epsilon, DELTA), sigma = 2 * radius / n / mu;
    const published = noise.map(z => pulledBack(mean.map((part, i) => part + sigma * z[i])));
    const guesses = published.map(y => pulledBack(ada.map((part, i) => part + n * (y[i] - mean[i]))));
    const factor = (all, goal) => Math.exp(median(all.map(y => apart(y, goal))) / 2);
    return {mu, sigma, published, guesses, right: normal(mu / 2), meanFactor: factor(published, mean),
            guessFactor: factor(guesses, ada)};
  }

  // The ellipse of one standard deviation
  function ellipse(svg, y, reach, kind) {
    const [[a, b], [, c]] = down(y), half = (a + c) / 2, gap = Math.hypot((a - c) / 2, b);
    const scale = 140 / reach, turn = -Math.atan2(2 * b, a - c) * 90 / Math.PI;
    drawn("ellipse", svg, {class: kind, rx: Math.sqrt(half + gap) * scale,
      ry: Math.sqrt(Math.max(half - gap, 0)) * scale, transform: `translate(160 145) rotate(${turn})`});
  }
  function ellipses(svg, thin, bold, reach, kind) {
    svg.replaceChildren();
    const id = `${svg.id}-frame`;  // what is larger than the frame is cut off
    drawn("path", drawn("clipPath", svg, {id}), {d: "M20 5h280v280h-280z"});
    const inside = drawn("g", svg, {"clip-path": `url(#${id})`});
    thin.forEach(y => ellipse(inside, y, reach, "thin"));
    ellipse(inside, bold, reach, kind);
    drawn("path", svg, {class: "tick", d: "M20 285h280M20 285v5M160 285v5M300 285v5"});
    for (const [x, text] of [[24, `−${reach}`], [160, "0"], [296, reach]])
      drawn("text", svg, {x, y: 303, "text-anchor": "middle"}, text);
    drawn("text", svg, {x: 160, y: 321, "text-anchor": "middle"}, "electrode 1 (µV)");
  }

  function odds(svg, epsilon, mu) {
    const end = Math.max(mu * mu / 2 + 4 * mu, 1.55 * epsilon);
    const nice = [1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 30, 100, 1e3, 1e4, 1e6, 1e10, 1e15, 1e20, 1e30];
    const far = nice.filter(one => Math.log(one) < 0.45 * end).at(-1) ?? 1.01, text = number(far);
    const {line, place} = axes(svg, {x: [-end, end], y: [0, 0.5 / mu], xLabel: "odds that it was Ada",
      xTicks: [[-Math.log(far), `1 : ${text}`], [0, "1 : 1"], [Math.log(far), `${text} : 1`]]});
    for (const [side, name, kind] of [[1, "Ada", "two"], [-1, "Ben", "one"]]) {
      const grid = range(-5, 5, 121).map(z => [side * mu * mu / 2 + mu * z, density(z) / mu]);
      line(grid, kind + (side > 0 ? " area" : ""));
      const [x, y] = place(side * (mu * mu / 2 + 0.4 * mu), 0.43 / mu);
      const anchor = side > 0 ? "start" : "end";
      drawn("text", svg, {x, y, class: kind, "text-anchor": anchor}, `with ${name}`);
    }
    for (const [at, name, anchor] of [[-epsilon, "exp(−ε)", "end"], [epsilon, "exp(ε)", "start"]]) {
      line([[at, 0], [at, 0.44 / mu]], "dotted");
      drawn("text", svg, {x: place(at, 0)[0] + (at < 0 ? -4 : 4), y: 40, "text-anchor": anchor}, name);
    }
  }

  function build(box, id) {
    let seed = 1;
    element("p", box, {}, "Move ε and n. The thirty draws stay the same until you ask for others.");
    const chosen = sliders(box, id, [
      {name: "epsilon", label: "ε", low: -1, high: 2, step: 0.02, start: 0,
       value: position => Number((10 ** position).toPrecision(2))},
      {name: "n", label: "number n of patients", low: 1.3, high: 4, step: 0.02,
       start: Math.log10(200), value: position => Math.round(Number((10 ** position).toPrecision(2)))}], update);
    const more = element("button", box, {type: "button"}, "thirty other draws");
    more.addEventListener("click", () => (seed++, update()));
    const panels = element("div", box, {class: "panels"});
    const left = panel(panels, "private means (thin) and the exact one",
      "Thirty ellipses of private means about the thick one of the exact mean", 325);
    const right = panel(panels, "attacks (thin), and Ada’s record",
      "Thirty ellipses guessed by the outsider, and the dashed one of Ada’s record", 325);
    left.id = `${id}-left`;
    right.id = `${id}-right`;
    const under = panel(panels, "his odds that it was Ada and not Ben",
      "Two bell curves on an axis of odds, with Ada and with Ben, and dotted lines at e to the ±ε", 230);
    const words = element("p", panels, {role: "status"});

    function update() {
      const {epsilon, n} = chosen(), found = release(epsilon, n, draws(seed));
      ellipses(left, found.published, mean, 40, "one bold");
      ellipses(right, found.guesses, ada, 60, "two bold dashed");
      odds(under, epsilon, found.mu);
      words.textContent = `Half of these private means are off by a factor of at most ` +
        `${found.meanFactor.toFixed(2)} in any half-axis, and half of his guesses by one of at most ` +
        `${found.guessFactor.toFixed(2)}. He tells Ada from Ben rightly in ${(100 * found.right).toFixed(1)}% ` +
        `of all cases; by tossing a coin it would be 50%. More patients bring the private means nearer to ` +
        `the exact one. They help him with neither question; only a larger ε does.`;
    }
    update();
  }

  touch.odds = {study, draws, release};
  touch.place("odds", build);
})();
