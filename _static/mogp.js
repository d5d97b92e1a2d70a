// The report's tables: click a heading to sort, type to filter, choose a status. Without scripts they are plain tables.
(function () {
  "use strict";

  const order = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  function element(name, attributes, text) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function enhance(report) {
    const what = report.dataset.what;
    const body = report.querySelector("tbody");
    const rows = Array.from(body.rows);
    const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

    const words = element("input", { type: "search", placeholder: `Filter ${what}`, "aria-label": `Filter ${what}` });
    const kinds = element("select", { "aria-label": "Status" });
    kinds.append(element("option", { value: "" }, "any status"));
    for (const kind of new Set(rows.map((row) => row.dataset.kind))) kinds.append(element("option", { value: kind }, kind));
    const count = element("output", {});
    const controls = element("div", { class: "mogp-controls" });
    controls.append(words, kinds, count);
    report.prepend(controls);

    function filter() {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const fits = (!kinds.value || row.dataset.kind === kinds.value) && wanted.every((word) => texts.get(row).includes(word));
        row.hidden = !fits;
        shown += fits ? 1 : 0;
      }
      count.textContent = `${shown} of ${rows.length} ${what}`;
    }

    function sortBy(heading, column) {
      const descending = heading.getAttribute("aria-sort") === "ascending";
      for (const other of report.querySelectorAll("th")) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const sign = descending ? -1 : 1;
      const key = (row) => row.cells[column].textContent.trim();
      rows.sort((a, b) => sign * order.compare(key(a), key(b)));
      body.append(...rows);
    }

    report.querySelectorAll("th").forEach((heading, column) => {
      const button = element("button", { type: "button", title: "Sort" }, heading.textContent);
      button.addEventListener("click", () => sortBy(heading, column));
      heading.replaceChildren(button);
    });
    words.addEventListener("input", filter);
    kinds.addEventListener("change", filter);
    filter();
  }

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".mogp-report").forEach(enhance));
})();
