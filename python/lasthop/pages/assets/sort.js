"use strict";
// Sorts tables of the class "sorted" by a click on the head of a column; a second click reverses.
for (const table of document.querySelectorAll("table.sorted")) {
  const body = table.tBodies[0];
  table.querySelectorAll("thead button").forEach((button, column) => {
    button.addEventListener("click", () => {
      const head = button.parentElement;
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const text = (row) => row.cells[column].textContent.trim();
      const rows = [...body.rows].sort((a, b) =>
        text(a).localeCompare(text(b), "en", { numeric: true }) * (up ? 1 : -1));
      body.append(...rows);
    });
  });
}
