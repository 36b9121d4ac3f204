// Fréchet means on the unit circle and the unit sphere, for the figure in which one record is moved.
(() => {
  const {range} = touch, DEGREE = Math.PI / 180;
  const wrapped = angle => angle - 2 * Math.PI * Math.round(angle / (2 * Math.PI));
  const least = (all, cost) => all.map(one => [cost(one), one]).reduce((a, b) => b[0] < a[0] ? b : a)[1];

  // The Fréchet mean of angles: every minimum is among n points, and the lowest of them counts
  function circleMean(angles) {
    const n = angles.length, mean = angles.reduce((a, b) => a + b) / n;
    const candidates = angles.map((_, j) => wrapped(mean + 2 * Math.PI * j / n));
    return least(candidates, m => angles.reduce((sum, x) => sum + wrapped(x - m) ** 2, 0));
  }

  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const cross = (a, b) =>
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  const distance = (a, b) => Math.atan2(Math.hypot(...cross(a, b)), dot(a, b));
  const scaled = (a, factor) => a.map(part => part * factor);
  const unit = a => scaled(a, 1 / Math.hypot(...a));
  const sum = (a, b) => a.map((part, i) => part + b[i]);
  const along = (m, v) => {
    const length = Math.hypot(...v);
    return length ? unit(sum(scaled(m, Math.cos(length)), scaled(v, Math.sin(length) / length))) : m;
  };
  const energy = (m, data) => data.reduce((all, [x, weight]) => all + weight * distance(m, x) ** 2 / 2, 0);

  // Newton's way down from m: a record at distance ρ bends the energy by 1 along, by ρ cot ρ across
  function descent(m, data) {
    for (let i = 0; i < 100; i++) {
      const e = unit(cross(m, Math.abs(m[0]) < 0.8 ? [1, 0, 0] : [0, 1, 0])), f = cross(m, e);
      let [gx, gy, xx, xy, yy, all] = [0, 0, 0, 0, 0, 0];
      for (const [x, weight] of data) {
        const rho = distance(m, x), [a, b] = [dot(x, e), dot(x, f)], long = Math.hypot(a, b);
        const [ux, uy] = long > 1e-12 ? [a / long, b / long] : [1, 0];
        const bend = long > 1e-12 ? rho / Math.tan(rho) : 1;
        gx += weight * rho * ux;
        gy += weight * rho * uy;
        xx += weight * (bend + (1 - bend) * ux * ux);
        xy += weight * (1 - bend) * ux * uy;
        yy += weight * (bend + (1 - bend) * uy * uy);
        all += weight;
      }
      const det = xx * yy - xy * xy, bowl = det > 1e-9 * all * all && xx + yy > 0;
      let step = bowl ? [(yy * gx - xy * gy) / det, (xx * gy - xy * gx) / det] : [gx / all, gy / all];
      const before = energy(m, data), go = ([a, b]) => along(m, sum(scaled(e, a), scaled(f, b)));
      const last = Math.hypot(...step) < 1e-8;  // the error is squared by each step
      for (let k = 0; !last && k < 40 && energy(go(step), data) > before; k++) step = scaled(step, 0.5);
      m = go(step);
      if (last) break;
    }
    return m;
  }

  // The Fréchet mean on the sphere: down from the lowest points of a grid; data are [point, weight]
  const GRID = range(0.5, 299.5, 300).map(i => {
    const z = 1 - i / 150, turn = i * Math.PI * (3 - Math.sqrt(5)), side = Math.sqrt(1 - z * z);
    return [side * Math.cos(turn), side * Math.sin(turn), z];
  });
  function sphereMean(data) {
    const starts = GRID.map(m => [energy(m, data), m]).sort((a, b) => a[0] - b[0]).slice(0, 5);
    return least(starts.map(([, m]) => descent(m, data)), m => energy(m, data));
  }

  // The two spaces: where a point is seen (x, y, and z towards the reader), how pointer and keys move
  // it, the mean, and the bound. The records that stay are two groups, on both sides of the centre.
  const circle = {
    name: "circle", at: angle => [Math.sin(angle), -Math.cos(angle), 1],
    center: 0, start: s => -s, sides: s => [-s, s],
    mean: (n, s, x) => circleMean([...Array(n - 1).fill(s).map((one, i) => i % 2 ? one : -one), x]),
    distance: (a, b) => Math.abs(wrapped(a - b)),
    pointed: (x, y) => Math.atan2(x, -y),
    pushed: (angle, right, above) => wrapped(angle + right + above),
    way: (a, b) => range(0, 1, 60).map(t => a + t * wrapped(b - a)),
    words: angle => `${Math.round(angle / DEGREE)} degrees`,
    bound: (r, n) => ["2r/n", 2 * r / n],
  };
  const sphere = {
    name: "sphere", at: ([x, y, z]) => [x, -y, z],
    center: [0, 0, 1], start: s => [0, -Math.sin(s), Math.cos(s)],
    sides: s => [[-Math.sin(s), 0, Math.cos(s)], [Math.sin(s), 0, Math.cos(s)]],
    mean: (n, s, x) => sphereMean([...sphere.sides(s).map(one => [one, (n - 1) / 2]), [x, 1]]),
    distance,
    // Beyond the rim the far side begins, and its middle is half a radius away
    pointed(x, y) {
      const away = Math.hypot(x, y), depth = Math.min(away, 1, Math.max(3 - 2 * away, 0));
      const z = Math.sqrt(1 - depth * depth) * (away > 1 ? -1 : 1);
      return away ? [x / away * depth, -y / away * depth, z] : [0, 0, 1];
    },
    pushed([x, y, z], right, above) {
      const [c, s] = [Math.cos(right), Math.sin(right)], turned = [c * x + s * z, y, c * z - s * x];
      const [d, t] = [Math.cos(above), Math.sin(above)];
      return unit([turned[0], d * y + t * turned[2], d * turned[2] - t * y]);
    },
    way(a, b) {
      const side = cross(cross(a, b), a), length = distance(a, b);
      return range(0, 1, 60).map(t => length ? along(a, scaled(unit(side), t * length)) : a);
    },
    words: ([x, y, z]) => `longitude ${Math.round(Math.atan2(x, z) / DEGREE)}, ` +
      `latitude ${Math.round(Math.asin(Math.max(-1, Math.min(y, 1))) / DEGREE)} degrees`,
    bound: (r, n) => ["2 tan(r)/n", 2 * Math.tan(r) / n],
  };

  // How far the mean has gone since the record was at its start, and what may be promised
  function moved(space, n, s, x) {
    const before = space.mean(n, s, space.start(s)), mean = space.mean(n, s, x);
    const r = Math.max(s, space.distance(space.center, x));
    return {before, mean, r, far: space.distance(before, mean), bound: space.bound(r, n)};
  }

  touch.means = {circle, sphere, moved, circleMean, sphereMean};
})();
