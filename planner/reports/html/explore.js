// Answers for any setting from plans and bounds made beforehand: nothing is interpolated. `STUDY` is the data (planner/reports/explore.py),
// `bracket` the range in which the least cost lies. What it rests on is said in planner/studies/explore.py.
(function () {
  "use strict";
  var S = window.STUDY, EPS = 1e-9, STEPS = 240;
  var T = { demand: 0, "gpu-prices": 1, "api-prices": 2, ttft: 3, tpot: 4, commitments: 5, budget: 6 };
  var BOUND = 7, MONTHS = 8, PENALTY = 9, SERVED = 10, FLEET = 11, STATUS = 12, LINES = 13;
  var names = {}, sliders = {};
  S.sliders.forEach(function (s) { sliders[s.key] = s; names[s.key] = s.title; });

  // -- the range ------------------------------------------------------------------------------------------------
  function same(a, b) { return Math.abs(a - b) <= EPS * Math.max(1, Math.abs(a)); }
  function own() {
    return { demand: 1, "gpu-prices": 1, "api-prices": 1, ttft: 1, tpot: 1, commitments: S.ownLevel, budget: S.ownBudget };
  }
  function comparable(n, s) {
    if (!same(n[T.ttft], s.ttft) || !same(n[T.tpot], s.tpot)) return false;
    return S.linear || (same(n[T["gpu-prices"]], s["gpu-prices"]) && same(n[T["api-prices"]], s["api-prices"]));
  }
  function easier(n, s) {  // whatever plan is allowed at s is allowed at n, its budget aside
    if (!comparable(n, s) || n[T.commitments] < s.commitments) return false;
    return S.monotone ? n[T.demand] <= s.demand * (1 + EPS) : same(n[T.demand], s.demand);
  }
  function harder(n, s) {  // whatever plan is allowed at n is allowed at s, the budget of s aside
    if (!comparable(n, s) || n[T.commitments] > s.commitments) return false;
    return S.monotone ? n[T.demand] >= s.demand * (1 - EPS) : same(n[T.demand], s.demand);
  }
  function costs(n, s) {  // of the plan of n in the setting s: [mean month, dearest month, cost + penalty]
    var part = s.demand / n[T.demand], total = 0, most = 0;
    n[MONTHS].forEach(function (m) {
      var usd = s["gpu-prices"] * m[0] + s["api-prices"] * m[1] * part + m[2];
      total += usd; most = Math.max(most, usd);
    });
    var mean = total / n[MONTHS].length;
    return [mean + S.held, most + S.held, mean + S.held + n[PENALTY] * part];
  }
  function upper(s) {
    var best = null;
    S.points.forEach(function (n) {
      if (!n[MONTHS] || !harder(n, s)) return;
      var c = costs(n, s);
      if (s.budget !== null && c[1] > s.budget * (1 + 1e-6)) return;
      if (!best || c[2] < best.usd) best = { usd: c[2], cost: c[0], month: c[1], point: n };
    });
    return best;
  }
  // max c x with A x <= b, x >= 0, b >= 0, by the simplex method
  function maximum(c, A, b) {
    var n = c.length, m = A.length, all = n + m;
    var rows = A.map(function (r, i) { return r.concat(A.map(function (_, k) { return +(k === i); }), b[i]); });
    var z = c.map(function (v) { return -v; }).concat(A.map(function () { return 0; }), 0), basis = A.map(function (_, i) { return n + i; });
    for (var round = 0; round < 400; round++) {
      var enter = -1, least = -1e-9;
      for (var j = 0; j < all; j++) if (z[j] < least) { if (round < 200) least = z[j]; enter = j; if (round >= 200) break; }
      if (enter < 0) break;
      var leave = -1, ratio = Infinity;
      for (var i = 0; i < m; i++) if (rows[i][enter] > 1e-12) {
        var r = rows[i][all] / rows[i][enter];
        if (r < ratio) { ratio = r; leave = i; }
      }
      if (leave < 0) return null;
      var p = rows[leave][enter];
      rows[leave] = rows[leave].map(function (v) { return v / p; });
      for (i = 0; i < m; i++) if (i !== leave && rows[i][enter]) {
        var f = rows[i][enter]; rows[i] = rows[i].map(function (v, k) { return v - f * rows[leave][k]; });
      }
      var fz = z[enter]; z = z.map(function (v, k) { return v - fz * rows[leave][k]; });
      basis[leave] = enter;
    }
    var x = c.map(function () { return 0; });
    basis.forEach(function (k, i) { if (k < n) x[k] = Math.max(0, rows[i][all]); });
    return x;
  }
  // What is proved of every plan at n, as weights of its GPU, API, other costs and penalty here: their sum is usd or more.
  // A dollar of a budget weighs 1 + worth; where months differ, the worth is paid for at the budget instead.
  function proofs(n, s, room) {
    var part = S.monotone ? Math.min(1, n[T.demand] / s.demand) : 1, g = n[T["gpu-prices"]], a = n[T["api-prices"]];
    var scale = Math.max(1, g / s["gpu-prices"], a / s["api-prices"]);
    return n[LINES].concat(n[BOUND] > 0 ? [[0, n[BOUND]]] : []).map(function (line) {
      var whole = S.months === 1, w = whole ? 1 + line[0] : 1;
      var usd = whole || !line[0] ? line[1] : room === null ? 0 : line[1] - scale * line[0] * room;
      return { n: n, usd: usd, row: [w * g, S.apis ? w * a * part : 0, S.mostElse === 0 ? 0 : w, part] };
    }).filter(function (p) { return p.usd > 0; });
  }
  function lower(s) {
    var g = s["gpu-prices"], a = s["api-prices"], room = s.budget === null ? null : Math.max(0, s.budget - S.held);
    var known = [], best = { usd: 0, from: [] }, impossible = null;
    S.points.forEach(function (n) {
      var free = n[T.budget] === null, no = n[STATUS] === "infeasible";
      if (!free && (!no || room === null) || !easier(n, s)) return;
      if (free && !no) known = known.concat(proofs(n, s, room));
      else if (free || room / Math.min(1, g / n[T["gpu-prices"]], a / n[T["api-prices"]]) <= (n[T.budget] - S.held) * (1 + EPS)) impossible = n;
    });
    if (impossible) return { usd: Infinity, from: [impossible] };
    if (!known.length) return best;
    var c = known.map(function (p) { return p.usd; }), limits = [g, a, 1, 1];
    var A = limits.map(function (_, i) { return known.map(function (p) { return p.row[i]; }); });
    if (room !== null) { c.push(-room); A.forEach(function (r, i) { r.push(i < 3 ? -limits[i] : 0); }); }
    if (S.mostElse) { c.push(-S.mostElse); A.forEach(function (r, i) { r.push(i === 2 ? -1 : 0); }); }
    var x = maximum(c, A, limits);
    if (!x) return best;
    var sums = [0, 0, 0, 0], usd = 0, from = [];  // whatever x is, what follows is a bound: what weighs too much is made lighter, or paid for at the budget or at the most that other costs can be
    known.forEach(function (p, k) { p.row.forEach(function (v, i) { sums[i] += x[k] * v; }); });
    var light = 1 / Math.max(1, sums[3]);
    known.forEach(function (p, k) { if (x[k] * light > 1e-9) { usd += x[k] * light * p.usd; if (from.indexOf(p.n) < 0) from.push(p.n); } });
    var asked = Math.max(1, light * sums[0] / g, light * sums[1] / a, S.mostElse === null ? light * sums[2] : 0);
    var over = function (times) { return (S.mostElse || 0) * Math.max(0, light * sums[2] / times - 1); };
    var lighter = usd / asked - over(asked);
    usd = room === null ? lighter : Math.max(lighter, usd - (asked - 1) * room - (S.mostElse || 0) * Math.max(0, light * sums[2] - asked));
    usd *= 1 - 1e-9;
    return usd > best.usd ? { usd: usd, from: from } : best;
  }
  function bracket(s) {
    var low = lower(s), high = upper(s), exact = null;
    low.usd += S.held;
    S.points.forEach(function (n) {
      if (["demand", "gpu-prices", "api-prices", "ttft", "tpot", "commitments"].every(function (k) { return same(n[T[k]], s[k]); })
        && (n[T.budget] === s.budget || (n[T.budget] === null && !S.sheds && high && n === high.point))) exact = exact || n;
    });
    var none = low.usd === Infinity || (!S.sheds && s.budget !== null && low.usd > s.budget * (1 + 1e-6));
    return { low: none ? null : high ? Math.min(low.usd, high.usd) : low.usd, high: none || !high ? null : high.usd, none: none, upper: none ? null : high,
      from: low.from, least: low.usd, exact: exact };
  }

  // -- words ------------------------------------------------------------------------------------------------------
  function usd(x) {
    if (x === Infinity) return "–";
    return "$" + (Math.abs(x) >= 9.995 ? Math.round(x).toLocaleString("en-US") : x.toFixed(2));
  }
  function price(x) { return x >= 1 ? "$" + x.toFixed(2) : "$" + x.toFixed(3); }
  function share(x) { return (100 * x).toFixed(x < 0.0995 ? 1 : 0) + "%"; }
  function times(x) { return (+x.toPrecision(4)) + "×"; }
  function written(key, v) {
    if (key === "commitments") return S.levels[v].name;
    if (key === "budget") return v === null ? "no limit" : usd(v) + " / month";
    return times(v);
  }
  function where(n) {
    var said = S.sliders.filter(function (s) { return !(s.key === "budget" && n[T.budget] === null) && n[T[s.key]] !== own()[s.key]; })
      .map(function (s) { return s.title + " " + written(s.key, n[T[s.key]]); });
    return said.length ? said.join(", ") : "the file's own values";
  }
  function range(b) {
    if (b.none) return "no plan";
    if (b.high === null) return "at least " + usd(b.low);
    return b.high - b.low < 0.005 * Math.max(1, b.high / 100) ? usd(b.high) : usd(b.low) + " to " + usd(b.high);
  }
  function command(s) {
    var o = own(), parts = ["fleetplan what-if", quoted(S.file)];
    ["demand", "gpu-prices", "api-prices", "ttft", "tpot"].forEach(function (k) {
      if (!same(s[k], o[k])) parts.push("--scale " + k + "=" + (+s[k].toPrecision(6)));
    });
    if (s.commitments !== o.commitments) parts.push("--only purchase=" + S.levels[s.commitments].purchase);
    if (s.budget !== null) parts.push("--budget " + s.budget);
    return parts.length > 2 ? parts.join(" ") : "fleetplan plan " + quoted(S.file);
  }
  function quoted(t) { return /^[\w@%+=:,.\/-]+$/.test(t) ? t : "'" + t.replace(/'/g, "'\\''") + "'"; }
  function reasons(s, b) {
    if (b.none) {
      return ["Proved: no plan fits. " + (b.least === Infinity
        ? "None was possible for " + where(b.from[0]) + ", which asks no more."
        : "Every plan costs " + usd(b.least) + " a month or more.")];
    }
    var said = [];
    if (b.exact && b.high !== null) {
      var gap = Math.max(0, 1 - b.low / b.high);
      said.push("Planned at this very setting, and proved " + (gap < 2e-6 ? "optimal." : "within " + (gap < 5e-4 ? "0.1%" : share(gap)) + " of its cost."));
    }
    if (b.high === null) said.push("No plan was made that is known to fit here; the command plans it.");
    else if (!b.exact) {
      var n = b.upper.point, more = [];
      if (!same(n[T.demand], s.demand)) more.push("it was made for more demand, and a fleet that carries more carries less");
      if (!same(n[T["gpu-prices"]], s["gpu-prices"]) || !same(n[T["api-prices"]], s["api-prices"])) more.push("prices do not change what a fleet can do, and what it costs at these is known exactly");
      if (n[T.commitments] !== s.commitments) more.push("it signs no more than is allowed here");
      if (s.budget !== null && n[T.budget] !== s.budget) more.push("its dearest month, " + usd(b.upper.month) + ", is within the budget");
      said.push("Not above " + usd(b.high) + ": the plan for " + where(n) + " does it" + (more.length ? " (" + more.join("; ") + ")." : "."));
    }
    if (!b.exact && b.from.length) {
      var why = [];
      if (b.from.some(function (n) { return !same(n[T.demand], s.demand); })) why.push("the least cost never falls with demand");
      if (b.from.length > 1 || !same(b.from[0][T["gpu-prices"]], s["gpu-prices"]) || !same(b.from[0][T["api-prices"]], s["api-prices"])) why.push("it is concave in prices, so a mean of bounds is a bound");
      if (b.from.some(function (n) { return n[T.commitments] !== s.commitments; })) why.push("more ways to buy never cost more");
      if (s.budget !== null && b.from.some(function (n) { return n[T.budget] !== s.budget; })) why.push("a smaller budget never costs less, and what a dollar of budget is worth at most was proved");
      said.push("Not below " + usd(b.low) + ": proved from " + b.from.map(where).join(" and from ") + (why.length ? " (" + why.join("; ") + ")." : "."));
    }
    return said;
  }

  // -- state ------------------------------------------------------------------------------------------------------
  var state = own(), pinned = null, order = [];
  var counts = function (key) { return key !== "budget" || S.sheds; };
  function moved(s) { return S.sliders.map(function (x) { return x.key; }).filter(function (k) { return s[k] !== own()[k]; }); }
  function positions(key) {
    var s = sliders[key];
    if (s.stops) return s.stops;
    if (s._at) return s._at;
    var at = [];
    if (s.places) return s.places;
    if (key === "budget") {
      for (var i = 0; i <= 120; i++) at.push(+(s.low + (s.high - s.low) * i / 120).toPrecision(4));
      if (S.ownBudget !== null) at.push(S.ownBudget); else at.push(null);
      at = at.filter(function (v, k) { return at.indexOf(v) === k; }).sort(function (a, b) { return a === null ? 1 : b === null ? -1 : a - b; });
    } else for (i = 0; i <= STEPS; i++) at.push(+(s.low * Math.pow(s.high / s.low, i / STEPS)).toPrecision(4));
    return (s._at = at);
  }
  function nearest(key, v) {
    var at = positions(key), best = 0;
    if (v === null) return at.indexOf(null) >= 0 ? at.indexOf(null) : at.length - 1;
    at.forEach(function (x, i) { if (x !== null && (at[best] === null || Math.abs(x - v) < Math.abs(at[best] - v))) best = i; });
    return best;
  }
  function fragment() {
    var parts = moved(state).map(function (k) { return k + "=" + state[k]; });
    if (pinned) parts = parts.concat(["pinned=1"], moved(pinned).map(function (k) { return "pin." + k + "=" + pinned[k]; }));
    return parts.join("&");
  }
  function read() {
    state = own(); pinned = null; order = [];
    var asked = new URLSearchParams(location.hash.slice(1));
    if (asked.get("pinned")) pinned = own();
    asked.forEach(function (text, key) {
      var into = key.indexOf("pin.") === 0 ? pinned : state, name = key.replace("pin.", "");
      if (!sliders[name] || !into) return;
      var value = text === "null" ? null : Number(text);
      if (value !== null && !isFinite(value)) return;
      into[name] = positions(name)[nearest(name, value)];
      if (into === state && counts(name) && into[name] !== own()[name]) order.push(name);
    });
    while (order.length > 2) state[order.shift()] = own()[order[0]] && own()[order[0]];
    S.sliders.forEach(function (s) { if (counts(s.key) && order.indexOf(s.key) < 0) state[s.key] = own()[s.key]; });
  }
  function set(key, value) {
    state[key] = value;
    said.textContent = "";
    order = order.filter(function (k) { return k !== key; });
    if (counts(key) && value !== own()[key]) order.push(key);
    if (order.length > 2) {
      var back = order.shift();
      state[back] = own()[back];
      said.textContent = "Two at a time: " + names[back] + " went back to the file's value.";
    }
    draw();
    var hash = "#" + fragment();
    try { history.replaceState(null, "", hash); } catch (e) { location.hash = hash; }
  }

  // -- the page -----------------------------------------------------------------------------------------------------
  function el(tag, attributes, children) {
    var e = document.createElement(tag);
    Object.keys(attributes || {}).forEach(function (k) { if (k === "text") e.textContent = attributes[k]; else e.setAttribute(k, attributes[k]); });
    (children || []).forEach(function (c) { if (c) e.appendChild(c); });
    return e;
  }
  var $ = function (id) { return document.getElementById(id); };
  var said = $("moved-back"), inputs = {};
  S.sliders.forEach(function (s) {
    var input = el("input", { type: "range", min: 0, max: positions(s.key).length - 1, step: 1, id: "slide-" + s.key });
    var value = el("output", { "for": "slide-" + s.key });
    var label = el("label", { "for": "slide-" + s.key, text: s.title });
    var hint = el("span", { "class": "said", text: s.hint });
    input.addEventListener("input", function () { set(s.key, positions(s.key)[+input.value]); });
    input.addEventListener("keydown", function (v) {
      if (v.key === "Escape") set(s.key, own()[s.key]);
    });
    inputs[s.key] = [input, value];
    $("sliders").appendChild(el("div", { "class": "slide" }, [label, value, input, hint]));
  });
  $("reset").addEventListener("click", function () { state = own(); order = []; set(S.sliders[0].key, 1); });
  $("pin").addEventListener("click", function () {
    pinned = pinned ? null : Object.assign({}, state);
    set(S.sliders[0].key, state[S.sliders[0].key]);
  });
  $("copy").addEventListener("click", function () {
    var text = $("command").textContent, done = function () { $("copy").textContent = "Copied"; setTimeout(function () { $("copy").textContent = "Copy"; }, 1500); };
    var byHand = function () {
      var r = document.createRange(); r.selectNodeContents($("command"));
      var sel = getSelection(); sel.removeAllRanges(); sel.addRange(r);
      if (document.execCommand("copy")) done();
    };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, byHand); else byHand();
  });
  $("csv").addEventListener("click", function () {
    var a = el("a", { href: URL.createObjectURL(new Blob([csv()], { type: "text/csv" })), download: S.name.replace(/[^\w-]+/g, "-") + "-explore.csv" });
    document.body.appendChild(a); a.click(); a.remove();
  });
  function cell(v) {
    v = String(v);
    if (/^[=+\-@\t\r]/.test(v) && isNaN(Number(v))) v = "'" + v;
    return /[",\n]/.test(v) ? '"' + v.replace(/"/g, '""') + '"' : v;
  }
  function csv() {
    var keys = S.sliders.map(function (s) { return s.key; });
    var head = ["what"].concat(keys, ["least_cost_at_least_usd_per_month", "least_cost_at_most_usd_per_month", "fleet"]);
    var rows = [head];
    function add(what, s) {
      var b = bracket(s);
      rows.push([what].concat(keys.map(function (k) { return k === "commitments" ? S.levels[s[k]].name : s[k] === null ? "" : s[k]; }),
        [b.none ? "no plan" : b.low.toFixed(2), b.high === null ? "" : b.high.toFixed(2), b.upper ? S.fleets[b.upper.point[FLEET]] : ""]));
    }
    add("setting", state);
    if (pinned) add("pinned", pinned);
    curves().forEach(function (key) { samples(key).forEach(function (v) { add("curve over " + key, at(key, v)); }); });
    return rows.map(function (r) { return r.map(cell).join(","); }).join("\r\n") + "\r\n";
  }
  function at(key, v) { var s = Object.assign({}, state); s[key] = v; return s; }
  function curves() {
    var m = order.slice().reverse();
    if (!S.sheds && state.budget !== own().budget) m.push("budget");
    m = m.filter(function (k) { return k !== "budget" || S.sheds; });
    return m.length ? m : ["demand"];
  }
  function samples(key) {
    var all = positions(key);
    if (sliders[key].stops || sliders[key].places || key === "budget") return all;
    return all.filter(function (v, i) { return i % 4 === 0 || v === state[key]; });
  }
  function answer(into, s, title) {
    var b = bracket(s), lines = [];
    into.textContent = "";
    into.appendChild(el("h3", { text: title }));
    var big = el("div", { "class": "big", text: range(b) });
    if (!b.none) big.appendChild(el("small", { text: S.sheds ? " / month with penalties" : " / month" }));
    into.appendChild(big);
    if (!b.none && b.high !== null) {
      var apart = (b.high - b.low) / b.high;
      lines.push(b.exact ? "Planned at this setting." : "The least cost lies in this range: " + share(apart) + " wide, proved on both sides.");
      if (S.sheds) lines.push("A plan for " + usd(b.upper.cost) + " a month answers " + share(b.upper.point[SERVED]) + " of the requests.");
      else {
        var m = S.tokens * s.demand / 1e6;
        if (m > 0) lines.push((price(b.low / m) === price(b.high / m) ? price(b.high / m) : price(b.low / m) + " to " + price(b.high / m)) + " per 1M tokens");
        var bill = S.baselineUsd * s.demand * s["api-prices"] + S.held;
        var saves = [1 - b.high / bill, 1 - b.low / bill];
        lines.push(S.baseline + (S.held ? " and what is held come to " : " would charge ") + usd(bill) + ": " + (saves[0] >= 0 ? share(saves[0]) + (share(saves[0]) === share(saves[1]) ? "" : " to " + share(saves[1])) + " less this way"
          : saves[1] < 0 ? "the API is cheaper by " + share(1 - bill / b.low) + " or more" : "which is cheaper is not decided within this range"));
      }
      if (S.held) lines.push("Of it, " + usd(S.held) + " a month is paid in any case for what is held.");
      if (s.budget !== null && !S.sheds) lines.push("The plan's dearest month is " + usd(b.upper.month) + ", within " + usd(s.budget) + ".");
    }
    lines.forEach(function (t) { into.appendChild(el("p", { text: t })); });
    if (b.upper) {
      into.appendChild(el("p", { "class": "remark", text: (b.exact ? "The plan: " : "A plan that does it: ") + S.fleets[b.upper.point[FLEET]] }));
    }
    var ul = el("ul", { "class": "notes" });
    reasons(s, b).forEach(function (t) { ul.appendChild(el("li", { text: t })); });
    into.appendChild(ul);
    return b;
  }
  function draw() {
    S.sliders.forEach(function (s) {
      var text = written(s.key, state[s.key]);
      inputs[s.key][0].value = nearest(s.key, state[s.key]);
      inputs[s.key][0].setAttribute("aria-valuetext", text);
      inputs[s.key][1].textContent = text;
      inputs[s.key][0].parentNode.classList.toggle("moved", state[s.key] !== own()[s.key]);
    });
    answer($("here"), state, pinned ? "This setting" : "Least cost at this setting");
    $("there").hidden = !pinned;
    $("both").classList.toggle("two", !!pinned);
    $("pin").textContent = pinned ? "Unpin" : "Pin to compare";
    if (pinned) answer($("there"), pinned, "Pinned: " + (moved(pinned).map(function (k) { return names[k] + " " + written(k, pinned[k]); }).join(", ") || "the file's own values"));
    $("command").textContent = "";
    command(state).split(/(?<= )/).forEach(function (word) {  // options are not broken after their hyphens
      $("command").appendChild(el("span", { "class": word.length < 30 ? "whole" : "", text: word }));
    });
    $("charts").textContent = "";
    curves().forEach(function (key) { $("charts").appendChild(chart(key)); });
  }
  var SVG = "http://www.w3.org/2000/svg";
  function svg(tag, attributes, text) {
    var e = document.createElementNS(SVG, tag);
    Object.keys(attributes).forEach(function (k) { e.setAttribute(k, attributes[k]); });
    if (text !== undefined) e.textContent = text;
    return e;
  }
  var small = window.matchMedia("(max-width: 600px)");
  small.addEventListener("change", function () { draw(); });
  function chart(key) {
    var W = small.matches ? 350 : 560, H = 250, L = small.matches ? 52 : 64, R = 14, TOP = 12, B = 40, vs = samples(key).filter(function (v) { return v !== null; });
    var rows = vs.map(function (v) { return { v: v, b: bracket(at(key, v)) }; });
    var known = rows.filter(function (r) { return !r.b.none && r.b.high !== null; });
    var most = Math.max.apply(null, known.map(function (r) { return r.b.high; }).concat([1])) * 1.05;
    var stops = !!sliders[key].stops, log = !stops && key !== "budget";
    var x = function (v) {
      if (stops) return L + (W - L - R) * (vs.length > 1 ? (vs.indexOf(v) + 0.5) / vs.length : 0.5);
      var lo = vs[0], hi = vs[vs.length - 1];
      return L + (W - L - R) * (log ? Math.log(v / lo) / Math.log(hi / lo) : (v - lo) / (hi - lo));
    };
    var y = function (u) { return H - B - (H - B - TOP) * u / most; };
    var s = svg("svg", { viewBox: "0 0 " + W + " " + H, role: "img", "aria-label": "least cost over " + names[key] });
    var step = Math.pow(10, Math.floor(Math.log10(most / 3))); while (most / step > 6) step *= most / step > 12 ? 5 : 2;
    for (var u = 0; u <= most; u += step) {
      s.appendChild(svg("line", { x1: L, x2: W - R, y1: y(u), y2: y(u), "class": "grid" }));
      s.appendChild(svg("text", { x: L - 6, y: y(u) + 4, "text-anchor": "end" }, u >= 1000 ? "$" + (+(u / 1000).toPrecision(3)) + "k" : "$" + u));
    }
    var ticks = stops ? vs : key === "budget" ? [vs[0], vs[Math.floor(vs.length / 2)], vs[vs.length - 1]] : [0.5, 0.7, 1, 1.4, 2];
    if (ticks.length > 5 && small.matches) ticks = ticks.filter(function (_, i) { return i % 2 === 0; });
    ticks.forEach(function (v) { s.appendChild(svg("text", { x: x(v), y: H - B + 20, "text-anchor": v === vs[vs.length - 1] && !stops ? "end" : "middle" }, key === "budget" ? usd(v) : written(key, v))); });
    s.appendChild(svg("text", { x: L + (W - L - R) / 2, y: H - 4, "text-anchor": "middle" }, names[key]));
    if (stops) known.forEach(function (r) {
      s.appendChild(svg("rect", { x: x(r.v) - 16, width: 32, y: y(r.b.high), height: Math.max(2, y(r.b.low) - y(r.b.high)), "class": "band f1" }));
    }); else if (known.length > 1) {
      var up = known.map(function (r) { return x(r.v).toFixed(1) + "," + y(r.b.high).toFixed(1); });
      var down = known.map(function (r) { return x(r.v).toFixed(1) + "," + y(r.b.low).toFixed(1); }).reverse();
      s.appendChild(svg("polygon", { points: up.concat(down).join(" "), "class": "band f1" }));
    }
    S.points.forEach(function (n) {
      if (!n[MONTHS] || !S.sliders.every(function (k) { return k.key === key || (k.key === "budget" && !S.sheds) || n[T[k.key]] === state[k.key]; }) || n[T[key]] === null) return;
      if (n[T[key]] > sliders[key].high * (1 + EPS)) return;
      var c = costs(n, at(key, n[T[key]]))[2];
      s.appendChild(svg("circle", { cx: x(n[T[key]]), cy: y(c), r: 3, "class": "f1" }));
    });
    if (state[key] !== null) {
      var b = bracket(state), px = x(state[key]);
      s.appendChild(svg("line", { x1: px, x2: px, y1: TOP, y2: H - B, "class": "here" }));
      if (b.high !== null) s.appendChild(svg("line", { x1: px, x2: px, y1: y(b.high) - 1, y2: y(b.low) + 1, "class": "span" }));
    }
    var none = rows.filter(function (r) { return r.b.none; }).length;
    var title = "Least cost over " + names[key];
    return el("figure", {}, [el("figcaption", {}, [el("h3", { text: title }),
      el("p", { text: "The band is proved on both sides; dots are plans." + (none ? " Where it is missing, no plan fits." : "") })]), s]);
  }
  window.addEventListener("hashchange", function () { read(); draw(); });
  window.explore = { bracket: bracket, own: own, command: command, csv: csv, state: function () { return state; }, positions: positions, order: function () { return order; }, set: set };
  read();
  draw();
})();
