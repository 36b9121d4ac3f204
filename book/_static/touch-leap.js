// Curvature, to touch: a record is dragged round a circle and a sphere; the mean follows, or leaps.
(() => {
  const {element, drawn, sliders, panel} = touch;
  const DEGREE = Math.PI / 180, RADIUS = 110, STEP = 3 * DEGREE, BIG = 15 * DEGREE;
  const KEYS = {ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]};
  const seen = (space, point) => {
    const [x, y, z] = space.at(point);
    return [160 + RADIUS * x, 140 + RADIUS * y, z];
  };

  // A line of points, on the near side or on the far one
  function way(svg, space, points, kind) {
    for (const side of [1, -1]) {
      let d = "", inside = false;
      for (const [x, y, z] of points.map(point => seen(space, point))) {
        const here = z * side >= 0;
        if (here) d += `${inside ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
        inside = here;
      }
      if (d) drawn("path", svg, {class: kind + (side < 0 ? " far" : ""), d});
    }
  }

  function mark(svg, space, point, kind) {
    const [x, y, z] = seen(space, point), far = z < -1e-9 ? " far" : "";
    const shape = kind.startsWith("mean") ? "M0-9L8 6H-8Z" : "M-6-6H6V6H-6Z";
    return drawn("path", svg, {class: kind + far, d: shape, transform: `translate(${x} ${y})`});
  }

  // The circle, or the globe with its grid
  function ground(svg, space) {
    drawn("circle", svg, {class: "tick", cx: 160, cy: 140, r: RADIUS});
    if (space.name === "circle") return;
    for (const share of [0.5, Math.sqrt(0.75)]) {
      const [a, b] = [RADIUS * share, RADIUS * Math.sqrt(1 - share * share)];
      const d = `M${160 - b} ${140 + a}h${2 * b}M${160 - b} ${140 - a}h${2 * b}`;
      drawn("path", svg, {class: "grid", d});
      drawn("ellipse", svg, {class: "grid", cx: 160, cy: 140, rx: a, ry: RADIUS});
    }
    const d = `M160 ${140 - RADIUS}v${2 * RADIUS}M${160 - RADIUS} 140h${2 * RADIUS}`;
    drawn("path", svg, {class: "grid", d});
  }

  // One space: its drawing, its record with pointer and keys, and its words
  function scene(parent, space, settings) {
    const title = `A ${space.name} with records and their mean`;
    const svg = panel(parent, `on a ${space.name}`, title, 280);
    svg.setAttribute("role", "group");
    const rest = drawn("g", svg);
    const handle = drawn("g", svg, {class: "handle", tabindex: 0, role: "slider", "aria-valuemin": 0,
      "aria-valuemax": 180, "aria-label": `record on the ${space.name}, degrees from the centre`});
    drawn("circle", handle, {class: "reach", r: 22});
    drawn("circle", handle, {class: "two dot", r: 8});
    const words = element("p", svg.parentNode, {role: "status"});
    let record = null, last = null;

    // How far the mean went with the last move: a leap is far more than the record's own way
    function leapt(mean, at) {
      if (!last) return 0;
      const gone = space.distance(last.mean, mean);
      return gone > 0.2 && gone > 4 * space.distance(last.at, at) ? gone : 0;
    }

    function update(fresh) {
      const {n, s} = settings(), at = record ?? space.start(s);
      const found = touch.means.moved(space, n, s, at);
      const leap = fresh ? 0 : leapt(found.mean, at), [name, bound] = found.bound;
      rest.replaceChildren();
      ground(rest, space);
      way(rest, space, space.way(found.before, found.mean), "two move");
      space.sides(s).forEach(one => mark(rest, space, one, "stay"));
      mark(rest, space, found.before, "mean was");
      mark(rest, space, found.mean, "mean");
      const [x, y, z] = seen(space, at);
      handle.setAttribute("transform", `translate(${x} ${y})`);
      handle.classList.toggle("far", z < -1e-9);
      const safe = found.r < Math.PI / 2 - 1e-9;
      words.textContent = (leap ? `The mean leapt by ${leap.toFixed(2)}. ` : "") +
        `The mean has moved by ${found.far.toFixed(3)}; 2r/n = ${(2 * found.r / n).toFixed(3)}` +
        (space.name === "sphere" && safe ? `, ${name} = ${bound.toFixed(3)}. ` : ". ") +
        (safe ? "" : `The ball is half of the ${space.name}, or more: no bound that falls with n holds.`);
      words.classList.toggle("leap", leap > 0);
      handle.setAttribute("aria-valuenow", Math.round(space.distance(space.center, at) / DEGREE));
      handle.setAttribute("aria-valuetext", `${space.words(at)}; the mean at ${space.words(found.mean)}`);
      last = {mean: found.mean, at};
    }

    const go = point => {
      record = point;
      update(false);
    };
    handle.addEventListener("keydown", event => {
      const [right, above] = KEYS[event.key] ?? [], far = event.shiftKey ? BIG : STEP;
      if (event.key === "Home") go(null);
      else if (right !== undefined) go(space.pushed(last.at, far * right, far * above));
      else return;
      event.preventDefault();
    });
    handle.addEventListener("pointerdown", event => {
      handle.setPointerCapture(event.pointerId);
      handle.focus();
      event.preventDefault();
    });
    handle.addEventListener("pointermove", event => {
      if (!handle.hasPointerCapture(event.pointerId)) return;
      const pointer = new DOMPoint(event.clientX, event.clientY);
      const place = pointer.matrixTransform(svg.getScreenCTM().inverse());
      go(space.pointed((place.x - 160) / RADIUS, (place.y - 140) / RADIUS));
    });
    return () => update(true);
  }

  function build(box, id) {
    element("p", box, {}, "Drag the round record, or move it with the arrow keys (with Shift further; Home " +
      "takes it back to its start). The squares are the other records, half of them at each. The " +
      "triangle is the Fréchet mean, the hollow one the mean before the record was moved. On the " +
      "sphere, drag beyond the rim to reach the far side, which is drawn faint.");
    const scenes = [];
    const settings = sliders(box, id, [
      {name: "n", label: "number n of records", low: 1, high: 10, step: 1, start: 2,
       value: position => 2 * position + 1},
      {name: "s", label: "squares to the centre", low: 10, high: 120, step: 1, start: 40,
       value: position => position, unit: "°"}], () => scenes.forEach(update => update()));
    const chosen = () => {
      const {n, s} = settings();
      return {n, s: s * DEGREE};
    };
    const panels = element("div", box, {class: "panels"});
    for (const space of [touch.means.circle, touch.means.sphere])
      scenes.push(scene(panels, space, chosen));
    element("p", box, {}, "Here r is the radius of the ball about the centre (the top of the circle, the " +
      "middle of the globe) that holds all records, and the moved one’s start, too. While r < π/2, the " +
      "mean moves by at most 2r/n on the circle, and by at most 2 tan(r)/n on the sphere, as will be " +
      "shown. Lengths are in radians.");
    scenes.forEach(update => update());
  }

  touch.place("leap", build);
})();
