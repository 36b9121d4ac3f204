// What the figures to touch share: elements, sliders, axes, numbers, and the law of normal noise.
// A page can load them from the file system. Nothing moves by itself.
window.touch = (() => {
  const rounded = (value, digits) => Number(value.toPrecision(digits));
  const number = (value, digits = 3) => value === 0 || value >= 1e-4 && value < 1e5
    ? String(rounded(value, digits)) : rounded(value, digits).toExponential().replace("e+", "e");

  // A number by its natural logarithm, also where float64 holds it no more
  function fromLog(log, digits = 3) {
    if (log > -700) return number(Math.exp(log), digits);
    const power = Math.floor(log / Math.LN10);
    return `${(10 ** (log / Math.LN10 - power)).toFixed(digits - 1)}e${power}`;
  }

  function filled(node, parent, attributes, text) {
    parent.append(node);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== "") node.textContent = text;
    return node;
  }
  const element = (tag, parent, attributes = {}, text = "") =>
    filled(document.createElement(tag), parent, attributes, text);
  const drawn = (tag, parent, attributes = {}, text = "") =>
    filled(document.createElementNS("http://www.w3.org/2000/svg", tag), parent, attributes, text);

  // Labelled sliders. A control has a name, a label, low, high, step, start, and `value`, which
  // makes of a position the number that counts: the one that is shown. Returns what is chosen.
  function sliders(box, id, controls, update) {
    const form = element("div", box, {class: "sliders"});
    const rows = controls.map(({name, label, low, high, step, start, value, unit = ""}) => {
      const row = element("div", form), own = `${id}-${name}`;
      element("label", row, {for: own}, label);
      const slider = element("input", row,
        {type: "range", id: own, name, min: low, max: high, step, value: start});
      const output = element("output", row, {for: own});
      slider.addEventListener("input", update);
      return {name, slider, output, value, unit};
    });
    return () => Object.fromEntries(rows.map(({name, slider, output, value, unit}) => {
      const chosen = value(Number(slider.value));
      output.textContent = number(chosen) + unit;
      slider.setAttribute("aria-valuetext", output.textContent);
      return [name, chosen];
    }));
  }

  // An empty drawing, 320 wide, with a title that is also what a screen reader says of it
  function panel(parent, title, words, height = 300) {
    const figure = element("figure", parent, {class: "panel"});
    element("figcaption", figure, {}, title);
    const options = {viewBox: `0 0 320 ${height}`, role: "img", "aria-label": words};
    return drawn("svg", figure, options);
  }

  // Axes about a clean sheet: returns the map from numbers to places, and `line`, which draws one
  function axes(svg, {x, y, xLabel, yLabel = "", xTicks = [], yTicks = []}) {
    svg.replaceChildren();
    const height = svg.viewBox.baseVal.height, left = yLabel || yTicks.length ? 50 : 12;
    const [right, bottom, top] = [308, height - 44, 10];
    const place = (a, b) => [left + (a - x[0]) / (x[1] - x[0]) * (right - left),
                             bottom - (b - y[0]) / (y[1] - y[0]) * (bottom - top)];
    for (const [value, text] of xTicks) {
      const [at] = place(value, 0);
      drawn("path", svg, {class: "tick", d: `M${at} ${bottom}v5`});
      drawn("text", svg, {x: at, y: bottom + 18, "text-anchor": "middle"}, text);
    }
    for (const [value, text] of yTicks) {
      const [, at] = place(0, value);
      drawn("path", svg, {class: "tick", d: `M${left} ${at}h-5`});
      drawn("text", svg, {x: left - 8, y: at + 4, "text-anchor": "end"}, text);
    }
    const sides = yTicks.length ? `M${left} ${top}V${bottom}H${right}` : `M${left} ${bottom}H${right}`;
    drawn("path", svg, {class: "tick", d: sides});
    drawn("text", svg, {x: (left + right) / 2, y: height - 8, "text-anchor": "middle"}, xLabel);
    const middle = `translate(14 ${(top + bottom) / 2}) rotate(-90)`;
    if (yLabel) drawn("text", svg, {transform: middle, "text-anchor": "middle"}, yLabel);
    const path = points => "M" + points.map(point => place(...point).map(part =>
      Math.max(-999, Math.min(part, 1999)).toFixed(2)).join(" ")).join("L");
    const line = (points, kind) => drawn("path", svg, {class: kind, d: path(points)});
    return {place, line};
  }

  const range = (low, high, count) =>
    Array.from({length: count}, (_, i) => low + (high - low) * i / (count - 1));
  const density = x => Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);

  // Mills' ratio R(x) = Φ(−x)/φ(x): a series about 0, a continued fraction beyond
  function mills(x) {
    if (x < 0) return 1 / density(x) - mills(-x);
    if (x < 2.5) {
      let term = x, sum = x;
      for (let k = 3; term > 1e-17 * sum; k += 2) sum += term *= x * x / k;
      return 0.5 / density(x) - sum;
    }
    let fraction = x;
    for (let k = 120; k; k--) fraction = x + k / fraction;
    return 1 / fraction;
  }
  const normal = x => x < 0 ? density(x) * mills(-x) : 1 - density(x) * mills(x);  // Φ

  // ln δ of normal noise. With a = ε/μ − μ/2 and b = a + μ it is ln φ(a) (R(a) − R(b)), since
  // e^ε φ(b) = φ(a): no power of e overflows.
  function logDelta(epsilon, mu) {
    const a = epsilon / mu - mu / 2;
    return Math.log(mills(a) - mills(a + mu)) - a * a / 2 - Math.log(2 * Math.PI) / 2;
  }

  // The μ of the least noise that keeps the promise, by halving
  function gaussianMu(epsilon, delta) {
    let [low, high] = [1e-3, 30];
    for (let i = 0; i < 60; i++) {
      const middle = Math.sqrt(low * high);
      if (logDelta(epsilon, middle) < Math.log(delta)) low = middle;
      else high = middle;
    }
    return low;
  }

  const place = (name, build) =>
    document.querySelectorAll(`.touch[data-figure=${name}]`).forEach((box, count) => {
      build(box, `touch-${name}-${count}`);
      box.hidden = false;
    });

  return {number, fromLog, element, drawn, sliders, panel, axes, range, density, mills, normal,
          logDelta, gaussianMu, place};
})();
