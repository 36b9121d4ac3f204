// Privacy loss, to touch: μ and ε move the trade-off curve, its tangent, and the area that is δ.
(() => {
  const {number, fromLog, element, drawn, sliders, panel, axes, range} = touch;
  const {density, normal, logDelta} = touch;

  // δ, by its logarithm, the threshold c of the best attack, and its two errors
  function promise(epsilon, mu) {
    const c = epsilon / mu + mu / 2;
    return {logDelta: logDelta(epsilon, mu), c, alpha: normal(-c), beta: normal(c - mu)};
  }

  function curve(svg, epsilon, mu, {delta, alpha, beta}) {
    const ticks = [0, 0.5, 1].map(value => [value, String(value)]);
    const {line, place} = axes(svg, {x: [0, 1], y: [0, 1], xTicks: ticks, yTicks: ticks,
      xLabel: "α, probability of a false alarm", yLabel: "β, probability of a miss"});
    line([[0, 1], [1, 0]], "dotted");
    line(range(-8, mu + 8, 241).map(c => [normal(-c), normal(c - mu)]), "one");
    line([[0, 1 - delta], [(1 - delta) / Math.exp(epsilon), 0]], "two dashed");
    line([[0, 1 - delta], [0, 1]], "two bar");
    const [cx, cy] = place(alpha, beta);
    drawn("circle", svg, {class: "two dot", cx, cy, r: 5});
    const [x, y] = place(0.07, 0.98);
    drawn("text", svg, {x, y: y + 4, class: "two"}, "δ");
  }

  function area(svg, epsilon, mu, c) {
    const ends = [-3.5, Math.max(mu, c) + 3.5], top = 0.5, weight = Math.exp(epsilon);
    const {line, place} = axes(svg, {x: ends, y: [0, top], xLabel: "answer, in units of the noise",
      xTicks: [[0, "0"], [mu, mu > 0.06 * (ends[1] - ends[0]) ? "μ" : ""], [c, ""]]});
    const p = y => density(y - mu), q = y => density(y), raised = y => Math.min(weight * q(y), 9);
    const tail = range(c, ends[1], 121);
    line([...tail.map(y => [y, p(y)]), ...tail.map(y => [y, raised(y)]).reverse()], "filled two");
    const all = range(...ends, 241);
    line(all.map(y => [y, q(y)]), "thin");
    const falling = all.map(y => [y, raised(y)]).filter(([y, height]) => y >= 0 && height <= top);
    if (falling.length) line(falling, "two dashed");
    line(all.map(y => [y, p(y)]), "one");
    line([[c, 0], [c, top * 0.9]], "dotted");
    for (const [at, text, kind, anchor] of [[mu, "p", "one", "start"], [0, "q", "", "end"]]) {
      const [x, y] = place(at, 0.415);
      drawn("text", svg, {x, y, class: kind, "text-anchor": anchor}, text);
    }
    const [x, y] = place(c, 0.94 * top);
    drawn("text", svg, {x, y, "text-anchor": "middle"}, "c");
  }

  function build(box, id) {
    element("p", box, {}, "Move μ, the distance of the two means in standard deviations, and ε.");
    const chosen = sliders(box, id, [
      {name: "mu", label: "μ", low: -1, high: 0.8, step: 0.01, start: 0,
       value: position => Number((10 ** position).toPrecision(2))},
      {name: "epsilon", label: "ε", low: 0, high: 8, step: 0.05, start: 1, value: position => position},
    ], update);
    const panels = element("div", box, {class: "panels"});
    const left = panel(panels, "trade-off curve, and its tangent",
      "The trade-off curve, and its tangent of slope −exp(ε), which meets the axis δ below 1");
    const right = panel(panels, "p, q, exp(ε) q (dashed), and δ (filled)",
      "Two normal densities; the area between the right one and exp(ε) times the left one is δ");
    const words = element("p", box, {role: "status"});

    function update() {
      const {mu, epsilon} = chosen(), found = promise(epsilon, mu);
      curve(left, epsilon, mu, {...found, delta: Math.exp(found.logDelta)});
      area(right, epsilon, mu, found.c);
      words.textContent = `δ = ${fromLog(found.logDelta, 4)}: the bar on the axis in the first ` +
        `drawing, and the filled area in the second. The attacker gains most if he says “D” at all ` +
        `answers from c = ${number(found.c)} on; then α = ${number(found.alpha)} and ` +
        `β = ${number(found.beta)}.`;
    }
    update();
  }

  touch.loss = {promise};
  touch.place("loss", build);
})();
