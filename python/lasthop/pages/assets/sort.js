"use strict";
// Tables that sort by a click on the head of a column; a second click reverses. On a page of
// lasthop these are the tables of the class "sorted", on the docs site all tables with three rows
// or more, except those in which a cell stands for several rows.
(() => {
  // Numbers and texts of a cell in their order: "-0.5 / 3 ms" is [-0.5, " / ", 3, " ms"]. A minus
  // sign begins a number only where no word precedes it.
  const NUMBER = /((?:(?<![\w.])[-−+])?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?)/i;
  const parts = (cell) => cell.textContent.trim().split(NUMBER)
    .map((part, i) => i % 2 ? Number(part.replaceAll(",", "").replace("−", "-")) : part)
    .filter((part) => part !== "");
  const compare = (a, b) => {
    for (let i = 0; i < Math.min(a.length, b.length); i++) {
      const numbers = [a[i], b[i]].map((part) => typeof part === "number");
      const order = numbers[0] !== numbers[1] ? numbers[1] - numbers[0]
        : numbers[0] ? a[i] - b[i] : a[i].localeCompare(b[i], "en");
      if (order) return order;
    }
    return a.length - b.length;
  };
  // Unknown values are last in both directions.
  const unknown = (cell) => /^[-–—]?$/.test(cell.textContent.trim());

  const sort = (table, head, column) => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows].map((row) => {
      const cell = row.cells[column];
      return { row, last: unknown(cell), key: parts(cell) };
    });
    rows.sort((a, b) => a.last - b.last || compare(a.key, b.key) * (up ? 1 : -1));
    table.tBodies[0].append(...rows.map(({ row }) => row));
  };

  const isPlain = (table) => {
    const rows = [...(table.tBodies[0]?.rows ?? [])];
    return table.tHead?.rows.length === 1 && rows.length > 2
      && rows.every((row) => row.cells.length === table.tHead.rows[0].cells.length
        && row.cells[0].textContent.trim());
  };

  for (const table of document.querySelectorAll("table.sorted, article table.docutils")) {
    if (!table.classList.contains("sorted") && !isPlain(table)) continue;
    table.classList.add("sorted");
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      // Sphinx has a paragraph in each cell.
      const inside = head.querySelector("p") ?? head;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...inside.childNodes);
      button.addEventListener("click", () => sort(table, head, column));
      inside.append(button);
    });
  }
})();
