"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg"; // a namespace identifier, not a reference
  const HEIGHT = 240, LEFT = 62, RIGHT = 12, TOP = 8, BOTTOM = 26;

  const scaled = (value, step, units) => {
    let at = 0;
    while (Math.abs(value) >= step && at < units.length - 1) { value /= step; at += 1; }
    const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
    return value.toFixed(digits) + " " + units[at];
  };
  const show = {
    rate: (v) => scaled(v, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"]),
    bytes: (v) => scaled(v, 1000, ["B", "kB", "MB", "GB", "TB", "PB"]),
    ms: (v) => v === 0 ? "0 ms" : v > 0 && v < 0.1 ? (v * 1000).toFixed(0) + " µs" : v >= 1e4 ? (v / 1000).toFixed(v < 1e5 ? 1 : 0) + " s" : v.toFixed(v < 10 ? 2 : 1) + " ms",
    count: (v) => String(Math.round(v)),
    percent: (v) => v.toFixed(0) + " %",
  };
  const node = (name, attributes, parent) => {
    const made = document.createElementNS(SVG, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (parent) parent.appendChild(made);
    return made;
  };
  // Round numbers for the ticks of an axis, at least so far apart.
  const marks = (highest, least) => {
    const rough = highest / 4 || 1;
    const power = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = Math.max(least, [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) || rough);
    const all = [];
    for (let at = 0; at <= highest + step * 0.001; at += step) all.push(at);
    return all;
  };
  const nearest = (points, x) => {
    let low = 0, high = points.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points[middle][0] < x) low = middle + 1; else high = middle;
    }
    return low > 0 && x - points[low - 1][0] < points[low][0] - x ? points[low - 1] : points[low];
  };

  // Where the line is interrupted: its connection was.
  const gapped = (line, before, now) => line.gaps.some(([from, to]) => before <= from && now >= to);
  const parts = (line) => {
    const all = [[]];
    line.points.forEach((point, at) => {
      if (at > 0 && gapped(line, line.points[at - 1][0], point[0])) all.push([]);
      all[all.length - 1].push(point);
    });
    return all;
  };

  const draw = (plot) => {
    const chart = document.querySelector("#" + plot.id + " .chart");
    if (!plot.lines.length) {
      const none = document.createElement("p");
      none.className = "empty";
      none.textContent = "Nothing was measured.";
      chart.appendChild(none);
      return;
    }
    const text = show[plot.unit];
    // Marks are round numbers.
    const tick = (v) => text(v).replace(/\.(\d*?)0+ /, (_, digits) => (digits ? "." + digits : "") + " ");
    // As wide as it is shown, so that a phone does not shrink the labels.
    const WIDTH = Math.min(560, Math.max(280, chart.clientWidth));
    let last = 0, highest = 0;
    for (const line of plot.lines) {
      for (const [x, y] of line.points) { last = Math.max(last, x); highest = Math.max(highest, y); }
    }
    last = last || 1;
    highest = highest * 1.05 || 1;
    const x = (v) => LEFT + (v / last) * (WIDTH - LEFT - RIGHT);
    const y = (v) => HEIGHT - BOTTOM - (v / highest) * (HEIGHT - TOP - BOTTOM);
    const label = chart.parentElement.querySelector("h2").textContent + " over time; the values are in the table that follows";
    const svg = node("svg", { viewBox: "0 0 " + WIDTH + " " + HEIGHT, role: "img", "aria-label": label }, chart);
    for (const mark of marks(highest, plot.unit === "count" ? 1 : 0)) {
      node("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(mark), y2: y(mark) }, svg);
      node("text", { x: LEFT - 6, y: y(mark) + 4, "text-anchor": "end" }, svg).textContent = tick(mark);
    }
    for (const mark of marks(last, 0)) {
      // The last one ends where the plot does.
      const isLast = x(mark) > WIDTH - RIGHT - 16;
      const at = { x: isLast ? WIDTH : x(mark), y: HEIGHT - 8, "text-anchor": isLast ? "end" : "middle" };
      node("text", at, svg).textContent = +mark.toFixed(3) + " s";
    }
    // The client's samples show how long an outage lasted.
    const shaded = plot.lines.filter((line) => !line.pale);
    const seen = new Set();
    for (const [from, to] of (shaded.length ? shaded : plot.lines).flatMap((line) => line.gaps)) {
      if (seen.has(from)) continue;
      seen.add(from);
      const box = { class: "outage", x: x(from), y: TOP, width: x(to) - x(from), height: HEIGHT - TOP - BOTTOM };
      node("rect", box, svg);
      if (box.width < 84) continue;
      const middle = { x: box.x + box.width / 2, y: TOP + 16, "text-anchor": "middle" };
      node("text", middle, svg).textContent = "no connection";
    }
    const cursor = node("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM }, svg);
    const legend = document.createElement("div");
    legend.className = "legend";
    chart.appendChild(legend);
    const values = plot.lines.map((line) => {
      const style = "stroke: var(--c" + line.colour + ")";
      const look = "line s" + line.style + (line.pale ? " pale" : "");
      const group = node("g", {}, svg);
      for (const part of parts(line)) {
        const points = part.map(([at, value]) => x(at).toFixed(1) + "," + y(value).toFixed(1)).join(" ");
        node("polyline", { class: look, style, points }, group);
        if (part.length === 1) {
          node("circle", { cx: x(part[0][0]), cy: y(part[0][1]), r: 3, style: "fill: var(--c" + line.colour + ")" }, group);
        }
      }
      const entry = document.createElement("button");
      entry.type = "button";
      entry.title = "Show or hide this line";
      entry.setAttribute("aria-pressed", "true");
      entry.addEventListener("click", () => {
        const hides = entry.getAttribute("aria-pressed") === "true";
        entry.setAttribute("aria-pressed", String(!hides));
        group.style.display = hides ? "none" : "";
      });
      const sample = node("svg", { viewBox: "0 0 22 8", "aria-hidden": "true" }, entry);
      node("line", { class: look, style, x1: 0, x2: 22, y1: 4, y2: 4 }, sample);
      entry.append(line.run + ": " + line.name + " ");
      const value = document.createElement("b");
      entry.appendChild(value);
      legend.appendChild(entry);
      return value;
    });
    // A value by itself would look like that of the whole line.
    const when = document.createElement("p");
    when.className = "when";
    legend.appendChild(when);
    const point = (at) => {
      // At the end, each line has the last of its own values; further right than that it has none.
      when.textContent = at === last ? "Last values" : "Values at " + at.toFixed(last < 10 ? 2 : 1) + " s";
      plot.lines.forEach((line, index) => {
        const isBeyond = at < last && at > line.points[line.points.length - 1][0] + last / 50;
        const isOut = isBeyond || line.gaps.some(([from, to]) => at > from && at < to);
        values[index].textContent = isOut ? "–" : text(nearest(line.points, at)[1]);
      });
    };
    point(last);
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const across = ((event.clientX - box.left) / box.width) * WIDTH;
      const at = Math.min(last, Math.max(0, ((across - LEFT) / (WIDTH - LEFT - RIGHT)) * last));
      cursor.setAttribute("x1", x(at));
      cursor.setAttribute("x2", x(at));
      cursor.style.visibility = "visible";
      point(at);
    });
    svg.addEventListener("pointerleave", () => { cursor.style.visibility = "hidden"; point(last); });
  };

  JSON.parse(document.getElementById("data").textContent).forEach(draw);
  document.body.dataset.drawn = "yes";
})();
