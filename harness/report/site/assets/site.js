"use strict";
// What is packed: JSON, gzip, Base64.
window.unpack = async (text) => {
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};

async function replacePacked(part) {
  part.outerHTML = JSON.parse(await window.unpack(part.textContent));
}

// Parts of a page that repeat themselves come packed. The browser could not yet scroll to what the address names in one.
const whole = (async () => {
  const parts = [...document.querySelectorAll("script.packed")];
  for (const part of parts) await replacePacked(part);
  if (parts.length && location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
})();

// The overview: filters, order and view; what is chosen is in the address, behind the #, so that a view can be sent.
(async function overview() {
  const list = document.getElementById("list");
  if (!list) return;
  await whole;
  const form = document.getElementById("filters");
  const chips = [...document.querySelectorAll("#verdicts button")];
  const views = [...document.querySelectorAll("[data-view]")];
  const body = list.tBodies[0];
  const rows = [...body.rows];
  const heads = [...list.tHead.querySelectorAll("th[data-sort]")];
  const tiles = new Map();
  for (const tile of document.querySelectorAll("a[data-k]")) tiles.set(tile.dataset.k, tile);
  const sections = [...document.querySelectorAll("section.map")];
  const orders = new Map(
    sections.map((section) => {
      const table = section.querySelector("table.heat").tBodies[0];
      return [table, [...table.rows]];
    }),
  );
  const fields = ["scenario", "engine", "client", "server", "parameter", "change", "q", "rows"].filter((name) => form.elements[name]);
  let state = {};

  function read() {
    const asked = new URLSearchParams(location.hash.slice(1));
    state = { view: asked.get("view") === "table" ? "table" : "maps", verdicts: new Set() };
    for (const name of fields) state[name] = asked.get(name) || "";
    for (const word of (asked.get("verdict") || "").split(",")) if (word) state.verdicts.add(word);
    const [key, way] = (asked.get("sort") || "").split(".");
    state.sort = heads.some((head) => head.dataset.sort === key) ? key : "";
    state.down = way === "down";
  }

  function write() {
    const said = new URLSearchParams();
    if (state.view === "table") said.set("view", "table");
    for (const name of fields) if (state[name]) said.set(name, state[name]);
    if (state.verdicts.size) said.set("verdict", [...state.verdicts].join(","));
    if (state.sort) said.set("sort", state.sort + (state.down ? ".down" : ".up"));
    const text = said.toString();
    history.replaceState(null, "", text ? "#" + text : "#");
  }

  function fits(row) {
    const data = row.dataset;
    const under = state.scenario.endsWith("/") ? data.s.startsWith(state.scenario) : data.s === state.scenario;
    return (
      (!state.scenario || under) &&
      (!state.engine || data.e === state.engine) &&
      (!state.client || data.c.split(" ").includes(state.client)) &&
      (!state.server || data.v.split(" ").includes(state.server)) &&
      (!state.parameter || data.p.split("|").includes(state.parameter)) &&
      (!state.change || data.b === state.change) &&
      (!state.verdicts.size || state.verdicts.has(data.r)) &&
      (!state.q || row.textContent.toLowerCase().includes(state.q.toLowerCase()))
    );
  }

  function value(row, at, numeric) {
    const cell = row.cells[at];
    if (!numeric) return cell.textContent.trim().toLowerCase();
    return cell.dataset.n === undefined ? NaN : Number(cell.dataset.n);
  }

  function ordered() {
    if (!state.sort) return rows;
    const at = heads.findIndex((head) => head.dataset.sort === state.sort);
    const numeric = heads[at].dataset.kind === "number";
    const way = state.down ? -1 : 1;
    return [...rows].sort((one, other) => {
      const [a, b] = [value(one, at, numeric), value(other, at, numeric)];
      if (!numeric) return way * a.localeCompare(b);
      // Cells without a figure stand at the end, whichever way.
      return Number.isNaN(a) - Number.isNaN(b) || (Number.isNaN(a) ? 0 : way * (a - b));
    });
  }

  function orderMaps() {
    for (const [table, given] of orders) {
      const mean = (row) => {
        const found = [...row.querySelectorAll("a[data-n]")].map((one) => Number(one.dataset.n));
        return found.length ? found.reduce((sum, one) => sum + one, 0) / found.length : NaN;
      };
      const way = state.rows === "high" ? -1 : 1;
      const made = !state.rows ? given : [...given].sort((one, other) => {
        const [a, b] = [mean(one), mean(other)];
        return Number.isNaN(a) - Number.isNaN(b) || (Number.isNaN(a) ? 0 : way * (a - b));
      });
      table.append(...made);
    }
  }

  function show() {
    let shown = 0;
    for (const row of rows) {
      const fit = fits(row);
      row.hidden = !fit;
      shown += fit;
      const tile = tiles.get(row.dataset.k);
      tile.classList.toggle("off", !fit);
      tile.tabIndex = fit ? 0 : -1;
    }
    body.append(...ordered());
    orderMaps();
    for (const section of sections) {
      section.hidden = !section.querySelector("a[data-k]:not(.off)");
      for (const line of section.querySelectorAll("table.heat tbody tr")) line.hidden = !line.querySelector("a[data-k]:not(.off)");
    }
    document.getElementById("count").textContent = `${shown} of ${rows.length} cells`;
    document.getElementById("nothing").hidden = shown > 0;
    document.getElementById("maps").hidden = state.view === "table";
    document.getElementById("table").hidden = state.view !== "table";
    for (const view of views) view.setAttribute("aria-pressed", String(view.dataset.view === state.view));
    for (const chip of chips) chip.setAttribute("aria-pressed", String(state.verdicts.has(chip.value)));
    document.getElementById("verdicts").classList.toggle("some", state.verdicts.size > 0);
    for (const name of fields) if (form.elements[name].value !== state[name]) form.elements[name].value = state[name];
    for (const head of heads) {
      if (head.dataset.sort === state.sort) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  }

  function changed() { write(); show(); }
  for (const kind of ["input", "change"]) form.addEventListener(kind, () => { for (const name of fields) state[name] = form.elements[name].value; changed(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("reset").addEventListener("click", () => { location.hash = state.view === "table" ? "view=table" : ""; read(); changed(); });
  for (const view of views) view.addEventListener("click", () => { state.view = view.dataset.view; changed(); });
  for (const chip of chips) chip.addEventListener("click", () => {
    if (!state.verdicts.delete(chip.value)) state.verdicts.add(chip.value);
    changed();
  });
  for (const head of heads) head.querySelector("button").addEventListener("click", () => {
    const key = head.dataset.sort;
    if (state.sort !== key) { state.sort = key; state.down = false; } else if (!state.down) state.down = true; else { state.sort = ""; state.down = false; }
    changed();
  });
  addEventListener("hashchange", () => { read(); show(); });
  read();
  show();
})();

// Scripts of the site, each loaded once when somebody wants what is in it. From a file no page may read another, so that
// what they hold is handed over: a script of what is packed calls packed().
const here = document.currentScript.src;
const loaded = new Map();
function load(place) {
  if (!loaded.has(place)) {
    loaded.set(place, new Promise((resolve, reject) => {
      const script = document.createElement("script");
      let held;
      script.onload = () => resolve(held);
      script.onerror = reject;
      script.receive = (text) => { held = window.unpack(text).then(JSON.parse); };
      script.src = new URL(`../${place}`, here);
      document.head.append(script);
    }));
  }
  return loaded.get(place);
}
window.packed = (text) => document.currentScript.receive(text);

// Lines that are there to be copied.
function copyLines(part) {
  for (const button of part.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.dataset.copy).textContent;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        const range = document.createRange();
        range.selectNodeContents(document.getElementById(button.dataset.copy));
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
    });
  }
}

// The interop matrix: one test case of all pairs, or all.
for (const chooser of document.querySelectorAll("#case")) {
  chooser.hidden = false;
  chooser.addEventListener("change", (event) => {
    const chosen = event.target.value;
    document.querySelector(".interop").classList.toggle("one", Boolean(chosen));
    for (const one of document.querySelectorAll(".interop li")) one.hidden = Boolean(chosen) && one.dataset.c !== chosen;
  });
}

// Long lists of a page, which come packed, when somebody wants to see them.
for (const list of document.querySelectorAll("details > script[type='text/plain']")) {
  list.parentElement.addEventListener("toggle", () => replacePacked(list), { once: true });
}

// Long tables of a cell, when somebody wants to see them.
const LONG_TABLES = {
  because: ["Where the time went", ["transfer", "state", "s", "%", "without it, at least s", "with it goes"]],
  link: ["The link", ["direction", "what", "asked", "seen"]],
  figures: ["All figures", ["metric", "median [interval]", "unit", "n", "seen in"]],
  sources: ["Where parameters were observed", ["role", "parameter", "observed", "where, and what that rests on"]],
};
function longTables(part, tables) {
  for (const details of part.querySelectorAll("details.packed")) {
    details.addEventListener("toggle", () => {
      const [name, heads] = LONG_TABLES[details.dataset.table];
      const made = document.createElement("table");
      made.className = "plain full";
      const head = made.createTHead().insertRow();
      for (const text of heads) {
        const one = document.createElement("th");
        one.scope = "col";
        one.textContent = text;
        head.append(one);
      }
      const body = made.createTBody();
      const cells = tables[details.dataset.table];
      for (let start = 0; start < cells.length; start += heads.length) {
        const line = body.insertRow();
        for (const text of cells.slice(start, start + heads.length)) line.insertCell().textContent = text;
      }
      const region = document.createElement("div");
      region.className = "scroll";
      region.tabIndex = 0;
      region.setAttribute("role", "region");
      region.setAttribute("aria-label", name);
      region.append(made);
      details.append(region);
    }, { once: true });
  }
}

// Pixels: a panel is never narrower than the first; below the second there is one column.
const LEAST = 120;
const NARROW = 640;
// And a column of a legend takes so many.
const LEGEND = 180;

// Figures: unpacked and drawn as they come into view, in the colours of the page. Those of a cell are in a script.
function figures(part, stored) {
  const found = [...part.querySelectorAll("figure.vega")];
  if (!found.length) return;
  const palette = JSON.parse(document.getElementById("palette").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // For a narrow place: two panels beside each other are below each other, and legends have fewer columns.
  function below(part, room) {
    if (Array.isArray(part)) return part.map((one) => below(one, room));
    if (!part || typeof part !== "object") return part;
    const { hconcat, ...rest } = part;
    const made = Object.fromEntries(Object.entries(rest).map(([name, one]) => [name, name === "data" || name === "datasets" ? one : below(one, room)]));
    if (made.legend?.columns) made.legend = { ...made.legend, columns: Math.min(made.legend.columns, Math.max(1, Math.floor(room / LEGEND))) };
    return hconcat ? { ...made, vconcat: below(hconcat, room) } : made;
  }

  // All panels, narrower by so many pixels; those beside each other share them.
  function narrowed(part, pixels) {
    if (Array.isArray(part)) return part.map((one) => narrowed(one, pixels));
    if (!part || typeof part !== "object") return part;
    return Object.fromEntries(Object.entries(part).map(([name, one]) => {
      if (name === "width" && typeof one === "number") return [name, Math.max(LEAST, one - pixels)];
      if (name === "hconcat") return [name, narrowed(one, pixels / one.length)];
      return [name, ["vconcat", "layer", "spec"].includes(name) ? narrowed(one, pixels) : one];
    }));
  }

  async function draw(figure) {
    await load("assets/vega.js");
    const inside = figure.querySelector("script");
    let text = inside ? await window.unpack(inside.textContent) : JSON.stringify((await load(stored))[figure.id]);
    if (dark.matches) for (const [light, other] of Object.entries(palette)) text = text.replaceAll(`"${light}"`, `"${other}"`);
    const plot = figure.querySelector(".plot");
    const room = plot.clientWidth;
    let drawing = JSON.parse(text);
    if (room < NARROW) {
      drawing = below(drawing, room);
      drawing.config = { ...drawing.config, padding: 2, legend: { ...drawing.config?.legend, columns: 1, labelLimit: room - 60 } };
    }
    // Axes and legends take what room they need; panels give it up.
    for (let attempt = 0; attempt < 3; attempt += 1) {
      await window.vegaEmbed(plot, drawing, {
        mode: "vega-lite", renderer: "svg", actions: { export: true, source: false, compiled: false, editor: false },
      });
      const excess = Math.ceil(plot.querySelector("svg").getBoundingClientRect().width) - room;
      if (excess <= 0) break;
      drawing = narrowed(drawing, excess);
    }
    figure.dataset.room = room;
    const menu = figure.querySelector("summary");
    if (menu) menu.setAttribute("aria-label", `Save ${figure.getAttribute("aria-label")} as a picture`);
    figure.dataset.drawn = "yes";
  }

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "300px" });
  for (const figure of found) seen.observe(figure);
  dark.addEventListener("change", () => { for (const figure of found) if (figure.dataset.drawn) draw(figure); });
  addEventListener("resize", () => {
    for (const figure of found) if (figure.dataset.drawn && Number(figure.dataset.room) !== figure.querySelector(".plot").clientWidth) draw(figure);
  });
  addEventListener("beforeprint", () => { for (const figure of found) if (!figure.dataset.drawn) draw(figure); });
}

// A cell of a script with a scenario's cells in pieces: those of one kind lie beside each other, in the order of cells,
// or are all the same. Null where it has no such cell.
function cellOf({ keys, orders: { page, ...tables }, pieces }, key) {
  const place = keys.indexOf(key);
  if (place < 0) return null;
  function assemble(orders) {
    const next = pieces.map(() => 0);
    for (const order of orders.slice(0, place)) for (const kind of order) next[kind] += 1;
    return orders[place].map((kind) => typeof pieces[kind] === "string" ? pieces[kind] : pieces[kind][next[kind]++]);
  }
  return {
    page: assemble(page).join("").replaceAll("\u0001", key),
    tables: Object.fromEntries(Object.entries(tables).map(([name, table]) => [name, assemble(table)])),
  };
}

// A cell's page, cell.html?SCENARIO/KEY: the cells of a scenario repeat each other, so that they are packed together.
(async function cell() {
  const part = document.getElementById("cell");
  if (!part) {
    copyLines(document);
    figures(document);
    return;
  }
  const [, scenario, key] = /^\?([\w.\/-]+)\/(\w+)$/.exec(location.search) || [];
  const cells = await load(`cells/${(scenario || "").replaceAll("/", "-")}.js`).catch(() => null);
  const stored = cells && cellOf(cells, key);
  if (!stored) {
    part.querySelector("[role=status]").textContent = "No such cell is on this site: the overview has those there are.";
    return;
  }
  part.innerHTML = stored.page;
  document.title = `${part.querySelector("h1").textContent} · ${scenario} · quic-lab`;
  copyLines(part);
  longTables(part, stored.tables);
  figures(part, `figures/${key}.js`);
  // What the address names was not there yet.
  if (location.hash) location.replace(location.hash);
})();
