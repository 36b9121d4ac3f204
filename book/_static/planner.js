// The planner: what noise a release needs and how far it takes the mean from the truth.
// Everything comes from the table that chapter 4 computes with spdlib; between its points ln(scale) is a cubic
// in ln ε and √ln(1/δ), as in that chapter, which states the error.
(() => {
  const table = window.plannerTable, {number, element, sliders} = touch;
  const rounded = (value, digits) => Number(value.toPrecision(digits));
  // What the reader moves: all but k on a logarithmic scale. The value is the one that is shown.
  const CONTROLS = [
    {name: "k", label: "size k of the matrices", low: 0, high: table.k.length - 1, step: 1,
     start: table.k.indexOf(8), value: position => table.k[position]},
    {name: "n", label: "number n of records", low: 0, high: 5, step: 0.01, start: Math.log10(400),
     value: position => Math.round(rounded(10 ** position, 2))},
    {name: "radius", label: "radius r of the ball", low: -1, high: 2, step: 0.01, start: Math.log10(13),
     value: position => rounded(10 ** position, 2)},
    {name: "epsilon", label: "ε", low: table.log_epsilon[0], high: table.log_epsilon.at(-1), step: 0.01, start: 0,
     value: position => rounded(Math.exp(position), 2)},
    {name: "delta", label: "δ", low: -12, high: -3, step: 0.1, start: -6,
     value: position => rounded(10 ** position, 1)},
  ];

  // The four points about x on an equally spaced axis, and Lagrange's weights for them
  function cubic(axis, x) {
    const t = (x - axis[0]) / (axis.at(-1) - axis[0]) * (axis.length - 1);
    const first = Math.min(Math.max(Math.floor(t) - 1, 0), axis.length - 4), u = t - first;
    return {first, weights: [-(u - 1) * (u - 2) * (u - 3) / 6, u * (u - 2) * (u - 3) / 2,
                             -u * (u - 1) * (u - 3) / 2, u * (u - 1) * (u - 2) / 6]};
  }

  function interpolated(values, epsilon, delta) {
    const e = cubic(table.log_epsilon, Math.log(epsilon)), d = cubic(table.root, Math.sqrt(-Math.log(delta)));
    let sum = 0;
    for (let i = 0; i < 4; i++) for (let j = 0; j < 4; j++)
      sum += e.weights[i] * d.weights[j] * values[e.first + i][d.first + j];
    return Math.exp(sum);
  }

  // For each noise its scale, the mean distance between release and truth, and where 95% of the releases lie
  function noises({k, n, radius, epsilon, delta}) {
    const sensitivity = 2 * radius / n, i = table.k.indexOf(k), d = k * (k + 1) / 2;
    const gaussian = sensitivity * interpolated(table.gaussian, epsilon, delta);
    const classical = epsilon < 1 ? sensitivity * Math.sqrt(2 * Math.log(1.25 / delta)) / epsilon : NaN;
    const l2 = sensitivity * interpolated(table.l2[i], epsilon, delta), laplace = sensitivity / epsilon;
    const row = (name, scale, mean, q95) => ({name, scale, mean: scale * mean, q95: scale * q95});
    return [
      row("tangent Gaussian, analytic", gaussian, table.chi_mean[i], table.chi_q95[i]),
      row("tangent Gaussian, classical", classical, table.chi_mean[i], table.chi_q95[i]),
      row("ℓ2", l2, d, table.gamma_q95[i]),
      row("Laplace (pure: δ = 0)", laplace, d, table.gamma_q95[i]),
    ];
  }

  function build(box, count) {
    const choice = sliders(box, `planner-${count}`, CONTROLS, update);
    const scroll = element("div", box, {class: "planner-table"});
    const body = element("table", scroll, {class: "numbers"});
    const head = element("tr", element("thead", body));
    for (const [i, text] of ["noise", "scale", "expected error", "95% within"].entries())
      element("th", head, i ? {scope: "col", class: "n"} : {scope: "col"}, text);
    const rows = element("tbody", body);
    const verdict = element("p", box, {role: "status"});
    element("code", element("p", box, {class: "planner-command"}));

    function update() {
      const chosen = choice();
      const found = noises(chosen), best = found.reduce((a, b) => b.mean < a.mean ? b : a);
      const longest = Math.max(...found.map(row => row.mean || 0));
      rows.replaceChildren();
      for (const row of found) {
        const line = element("tr", rows, row === best ? {class: "survivor"} : {});
        element("td", line, {}, row.name);
        for (const part of ["scale", "mean", "q95"]) {
          const known = Number.isFinite(row[part]);
          const cell = element("td", line, {class: "n", "data-part": part, "data-value": row[part]},
                               known ? number(row[part]) : part === "scale" ? "needs ε < 1" : "–");
          if (part === "mean" && known) cell.style.setProperty("--share", row.mean / longest);
        }
      }
      const drowned = best.mean > chosen.radius
        ? " That is more than the radius of the ball: a release says nothing yet; more records or a larger ε would." : "";
      verdict.textContent = `Least expected error: ${best.name}, ${number(best.mean)} in log-Euclidean distance.${drowned}`;
      box.querySelector("code").textContent = `spdlib plan -k ${chosen.k} -n ${chosen.n} --radius ${chosen.radius} ` +
        `--epsilon ${chosen.epsilon} --delta ${number(chosen.delta)}`;
    }
    update();
    box.hidden = false;
  }

  document.querySelectorAll(".planner").forEach(build);
})();
