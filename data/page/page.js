// Draws charts, and sorts, searches and turns the pages of tables. All rows lie beside a table as JSON, each cell a text or
// [number, text]; without this script the page shows the first of them.
"use strict";
for (const section of document.querySelectorAll(".plimsoll section.rows")) {
  const rowsPerPage = 100;
  const body = section.querySelector("tbody");
  const headers = [...section.querySelectorAll("th")];
  const rows = JSON.parse(section.querySelector("script").textContent);
  const text = (cell) => (Array.isArray(cell) ? cell[1] : cell);
  const haystacks = rows.map((row) => row.map(text).join("\n").toLowerCase());
  let found = rows.map((_, i) => i);
  let sorted = { column: -1, sign: 1 };
  let first = 0;
  let showsAll = false;

  const make = (name, attributes = {}, label = "") => {
    const element = document.createElement(name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    element.textContent = label;
    return element;
  };
  const tools = make("div", { class: "tools" });
  const search = make("input", { type: "search", placeholder: "Search", "aria-label": "Search this table" });
  const back = make("button", { type: "button" }, "Previous");
  const on = make("button", { type: "button" }, "Next");
  const all = make("button", { type: "button", "aria-pressed": "false" }, "Show all");
  const count = make("span", { class: "soft", role: "status" });
  tools.append(search);
  if (rows.length > rowsPerPage) tools.append(back, on, all);
  tools.append(count);
  section.querySelector(".scroll").before(tools);

  const show = () => {
    const last = showsAll ? found.length : Math.min(first + rowsPerPage, found.length);
    const from = showsAll ? 0 : first;
    const lines = document.createDocumentFragment();
    for (const i of found.slice(from, last)) {
      const line = make("tr");
      rows[i].forEach((cell, c) => line.append(make("td", Array.isArray(cell) ? { class: "number" } : {}, text(cell))));
      lines.append(line);
    }
    body.replaceChildren(lines);
    const range = found.length === 0 ? "0" : `${(from + 1).toLocaleString("en")} to ${last.toLocaleString("en")}`;
    count.textContent = `${range} of ${found.length.toLocaleString("en")} rows`;
    back.disabled = showsAll || first === 0;
    on.disabled = showsAll || first + rowsPerPage >= found.length;
    all.disabled = found.length <= rowsPerPage;
  };
  const order = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = rows.map((_, i) => i).filter((i) => words.every((word) => haystacks[i].includes(word)));
    if (sorted.column >= 0) {
      const collator = new Intl.Collator("en", { numeric: true });
      const key = (i) => rows[i][sorted.column];
      const compare = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (Array.isArray(x) && Array.isArray(y)) return x[0] - y[0];
        return Array.isArray(x) ? -1 : Array.isArray(y) ? 1 : collator.compare(x, y);
      };
      found.sort((a, b) => sorted.sign * compare(a, b) || a - b);
    }
    first = 0;
    show();
  };

  headers.forEach((header, column) => {
    const button = make("button", { type: "button" }, header.textContent);
    header.replaceChildren(button);
    button.addEventListener("click", () => {
      sorted = { column, sign: sorted.column === column ? -sorted.sign : 1 };
      for (const other of headers) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", sorted.sign > 0 ? "ascending" : "descending");
      order();
    });
  });
  search.addEventListener("input", order);
  back.addEventListener("click", () => { first -= rowsPerPage; show(); });
  on.addEventListener("click", () => { first += rowsPerPage; show(); });
  all.addEventListener("click", () => {
    showsAll = !showsAll;
    all.setAttribute("aria-pressed", String(showsAll));
    all.textContent = showsAll ? "Show pages" : "Show all";
    first = 0;
    show();
  });
  show();
}

// Draws charts: beside the place of each lies its Vega-Lite specification.
for (const figure of document.querySelectorAll(".plimsoll figure")) {
  const place = figure.querySelector(".chart");
  const legendColumns = Math.max(1, Math.floor(place.clientWidth / 190));
  const text = { labelColor: "var(--soft)", labelFontSize: 12, titleColor: "var(--soft)", titleFontSize: 12, titleFontWeight: "normal" };
  const line = "var(--line)";
  vegaEmbed(place, JSON.parse(figure.querySelector("script").textContent), {
    actions: false,
    ast: true, // the page's policy forbids to compile expressions; they are interpreted
    renderer: "svg",
    tooltip: { theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light" },
    config: {
      background: "transparent",
      font: "system-ui, sans-serif",
      view: { stroke: null },
      axis: { ...text, domainColor: line, gridColor: line, tickColor: line },
      axisY: { tickCount: 6, titleAlign: "left", titleAnchor: "end", titleAngle: 0, titleX: -40, titleY: -10 },
      legend: { ...text, columns: legendColumns, labelLimit: 170, orient: "bottom", symbolType: "square", title: null },
      text: { fill: "var(--ink)", fontSize: 12 },
    },
  });
}
