"use strict";
// The viewer of qlogs: the trace that the address names, as the site keeps it.
(function viewer() {
  const name = location.hash.slice(1);
  if (!/^[0-9a-f]+-\d+-\d+$/.test(name)) return;
  const page = 200;
  const form = document.getElementById("search");
  const more = document.getElementById("more");
  const body = document.querySelector("#events tbody");
  let events = [];
  let fitting = [];

  function add() {
    for (const [at, kind, said] of fitting.slice(body.rows.length, body.rows.length + page)) {
      const line = body.insertRow();
      for (const text of [at.toFixed(3), kind, said]) line.insertCell().textContent = text;
    }
    more.hidden = body.rows.length >= fitting.length;
  }

  function show() {
    const kind = form.elements.kind.value;
    const words = form.elements.words.value.toLowerCase();
    fitting = events.filter((one) => (!kind || one[1] === kind) && (!words || one[2].toLowerCase().includes(words)));
    body.replaceChildren();
    add();
    document.getElementById("count").textContent = `${fitting.length} of ${events.length} events`;
  }

  function tell(trace) {
    document.getElementById("name").textContent = `qlog of ${trace.whose}`;
    document.getElementById("about").textContent = `${trace.run} · ${trace.file}${trace.cut ? " · its beginning: the file has the rest" : ""}`;
    events = trace.events;
    for (const kind of [...new Set(events.map((one) => one[1]))].sort()) form.elements.kind.append(new Option(kind));
    show();
  }
  for (const kind of ["input", "change"]) form.addEventListener(kind, show);
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", add);
  addEventListener("hashchange", () => location.reload());
  addEventListener("load", async () => tell(await load(`qlogs/${name}.js`)));
})();
