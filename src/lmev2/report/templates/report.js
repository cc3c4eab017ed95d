// Filters of the question list and the comparison of two methods. Pages are complete without it.
"use strict";
(function () {
  var LETTERS = { c: "correct", w: "wrong", u: "unknown", e: "error" };
  var FLAGS = { 1: "yes", 0: "no", "-": "–" };

  function element(id) { return document.getElementById(id); }

  function badge(letter) {
    var span = document.createElement("span");
    span.textContent = LETTERS[letter] || "–";
    if (LETTERS[letter]) { span.className = "badge " + LETTERS[letter]; }
    return span;
  }

  function readHash() {
    var values = {};
    new URLSearchParams(location.hash.slice(1)).forEach(function (value, name) { values[name] = value; });
    return values;
  }

  // The address keeps the choice, so that going back to a list shows it as it was left.
  function writeHash(values) {
    var parameters = new URLSearchParams();
    Object.keys(values).forEach(function (name) { if (values[name] !== "") { parameters.set(name, values[name]); } });
    location.replace("#" + parameters.toString());
  }

  function choose(control, value) {
    if (value === undefined) { return; }
    control.value = value;
    if (control.tagName === "SELECT" && control.selectedIndex < 0) { control.selectedIndex = 0; }
  }

  function startList() {
    var rows = Array.from(document.querySelectorAll("#questions tbody tr"));
    var texts = rows.map(function (row) { return row.textContent.toLowerCase(); });
    var controls = {};
    document.querySelectorAll("[data-filter]").forEach(function (control) { controls[control.dataset.filter] = control; });
    var fields = { domain: 2, question_type: 3, category: 4 };

    // Whether some cell (the chosen one, or any) has all of the wanted outcome, coverage and support.
    function cellFits(values, number) {
      var cells = values.cell === "" ? REPORT.cells : [REPORT.cells[Number(values.cell)]];
      return cells.some(function (cell) {
        return (values.outcome === "" || cell.outcome[number] === values.outcome[0]) &&
          (values.covered === "" || cell.covered[number] === values.covered) &&
          (values.gold === "" || cell.gold[number] === values.gold);
      });
    }

    function apply() {
      var values = {};
      Object.keys(controls).forEach(function (name) { values[name] = controls[name].value; });
      var words = values.words.toLowerCase().split(/\s+/).filter(Boolean);
      var cell = values.cell === "" ? null : REPORT.cells[Number(values.cell)];
      var shown = 0;
      document.querySelector("#questions thead .chosen").hidden = cell === null;
      rows.forEach(function (row) {
        var number = Number(row.dataset.q);
        var question = REPORT.questions[number];
        var fits = Object.keys(fields).every(function (name) {
          return values[name] === "" || question[fields[name]] === values[name];
        }) && words.every(function (word) { return texts[number].includes(word); }) && cellFits(values, number);
        row.hidden = !fits;
        shown += fits ? 1 : 0;
        var place = row.querySelector(".chosen");
        place.hidden = cell === null;
        place.replaceChildren(cell === null ? "" : badge(cell.outcome[number]));
        row.querySelector("a").hash = cell === null ? "" : cell.anchor;
      });
      element("count").textContent = shown + " of " + rows.length + " questions";
      return values;
    }

    function changed() { writeHash(apply()); }

    function restore() {
      var values = readHash();
      Object.keys(controls).forEach(function (name) { choose(controls[name], values[name] || ""); });
      apply();
    }

    element("filters").addEventListener("input", changed);
    element("reset").addEventListener("click", function () {
      Object.keys(controls).forEach(function (name) { controls[name].value = ""; });
      changed();
    });
    window.addEventListener("hashchange", restore);
    restore();
  }

  function startComparison() {
    var controls = { a: element("a"), b: element("b"), which: element("which") };
    element("pair").hidden = false;

    function kind(one, other) {
      if (one === "e" || other === "e" || one === "-" || other === "-") { return "errors"; }
      return (one === "c" ? "1" : "0") + (other === "c" ? "1" : "0");
    }

    function wanted(which, found) {
      return which === "all" || which === found || (which === "differ" && (found === "10" || found === "01"));
    }

    function tableRow(question, number, cells) {
      var row = document.createElement("tr");
      var head = document.createElement("th");
      var link = document.createElement("a");
      head.scope = "row";
      link.href = "question/" + question[1] + ".html";
      link.textContent = question[0];
      head.append(link);
      row.append(head);
      function add(content, name) {
        var cell = document.createElement("td");
        cell.append(content);
        if (name) { cell.className = name; }
        row.append(cell);
      }
      cells.forEach(function (cell) { add(badge(cell.outcome[number])); });
      cells.forEach(function (cell) { add(FLAGS[cell.covered[number]]); });
      cells.forEach(function (cell) { add(cell.ms[number] === null ? "–" : String(cell.ms[number]), "number"); });
      add(question[3]);
      return row;
    }

    function apply() {
      var cells = [REPORT.cells[Number(controls.a.value)], REPORT.cells[Number(controls.b.value)]];
      var counts = { 11: 0, 10: 0, "01": 0, "00": 0, errors: 0 };
      var rows = document.createDocumentFragment();
      var listed = 0;
      REPORT.questions.forEach(function (question, number) {
        var found = kind(cells[0].outcome[number], cells[1].outcome[number]);
        counts[found] += 1;
        if (wanted(controls.which.value, found)) {
          rows.append(tableRow(question, number, cells));
          listed += 1;
        }
      });
      ["11", "10", "01", "00"].forEach(function (name) { element("n" + name).textContent = counts[name]; });
      element("summary").textContent = "A: " + cells[0].label + ". B: " + cells[1].label + ". A wins " + counts["10"] +
        ", B wins " + counts["01"] + (counts.errors ? ", " + counts.errors + " without a score of both" : "") +
        "; " + listed + " of " + REPORT.questions.length + " questions listed.";
      element("compared").replaceChildren(rows);
    }

    function changed() {
      apply();
      writeHash({ a: controls.a.value, b: controls.b.value, which: controls.which.value });
    }

    function restore() {
      var values = readHash();
      choose(controls.a, values.a || "0");
      choose(controls.b, values.b || String(REPORT.cells.length - 1));
      choose(controls.which, values.which || "differ");
      apply();
    }

    Object.keys(controls).forEach(function (name) { controls[name].addEventListener("change", changed); });
    window.addEventListener("hashchange", restore);
    restore();
  }

  if (element("questions")) { startList(); }
  if (element("pair")) { startComparison(); }
}());
