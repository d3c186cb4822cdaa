// The only script of the page: values beside the pointer, or beside the mark that the arrow keys have reached. Without it
// the page is whole: browsers show the same text themselves, and each picture has its table.
(function () {
  "use strict";
  var tip = document.createElement("div");
  tip.id = "tip"; tip.setAttribute("role", "status"); tip.hidden = true;
  document.body.appendChild(tip);
  document.querySelectorAll("svg .m > title").forEach(function (t) {
    t.parentNode.tip = t.textContent; t.remove();
  });
  document.querySelectorAll("[title]").forEach(function (e) {
    e.tip = e.getAttribute("title"); e.removeAttribute("title");
    if (!e.hasAttribute("aria-label") && e.classList.contains("cell")) e.setAttribute("aria-label", e.tip);
  });
  function tipped(e) {
    while (e && e !== document.body) { if (e.tip) return e; e = e.parentNode; }
    return null;
  }
  var lit = null;
  function show(e, x, y) {
    if (lit && lit !== e) lit.classList.remove("lit");
    lit = e; e.classList.add("lit");
    tip.textContent = e.tip; tip.hidden = false;
    var w = tip.offsetWidth, h = tip.offsetHeight, room = document.documentElement.clientWidth;
    tip.style.left = Math.max(4, Math.min(x + 14, room - w - 8)) + "px";
    tip.style.top = (y - h - 14 > 4 ? y - h - 14 : y + 18) + "px";
  }
  function hide() { tip.hidden = true; if (lit) lit.classList.remove("lit"); lit = null; }
  document.addEventListener("pointermove", function (v) {
    var e = tipped(v.target);
    if (e) show(e, v.clientX, v.clientY); else if (v.pointerType === "mouse") hide();
  });
  document.addEventListener("pointerdown", function (v) {
    var e = tipped(v.target);
    if (e) show(e, v.clientX, v.clientY); else hide();
  });
  document.addEventListener("scroll", hide, true);
  document.querySelectorAll("svg, .heat").forEach(function (area) {
    var marks = Array.from(area.querySelectorAll(".m, .cell")).filter(function (m) { return m.tip; });
    if (!marks.length) return;
    var at = -1;
    area.setAttribute("tabindex", "0");
    area.addEventListener("keydown", function (v) {
      if (v.key === "Escape") { hide(); return; }
      var step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[v.key];
      if (v.key === "Home") { at = 0; step = 0; }
      if (v.key === "End") { at = marks.length - 1; step = 0; }
      if (step === undefined) return;
      v.preventDefault();
      at = Math.max(0, Math.min(marks.length - 1, at + step));
      var r = marks[at].getBoundingClientRect();
      show(marks[at], r.left + r.width / 2, r.top);
    });
    area.addEventListener("blur", hide);
  });
})();
