/** A table that is sorted, searched and paged: a thousand rows cost no more than one page. */

import { h, put, whole } from "./dom.js";
import { keep } from "./place.js";

const PAGE = 50;

/**
 * columns: {id, title, number, sort(row), cells(row) -> [td], wide (cells of a row; the last has
 * class "ends", which a phone does not show)}
 * view: {sort, desc, find, page}; changed(view) is told about every change.
 */
export function table({ label, columns, name, view, changed, rows: first = [] }) {
  let rows = first;
  const headings = new Map();
  const body = h("tbody");
  const pager = h("div", { class: "pager" });
  const count = h("span", { class: "muted", role: "status" });
  const search = h("input", { type: "search", value: view.find ?? "", "data-id": "find", "aria-label": `Search ${name}s`, placeholder: `Search ${name}s`, oninput: () => change({ find: search.value, page: 0 }) });
  const head = h("tr", {}, columns.flatMap((column) => {
    const button = h("button", { type: "button", class: "sort", onclick: () => order(column) }, column.title);
    const cell = h("th", { scope: "col", class: column.number && !column.wide ? "number" : "", colspan: column.wide ? column.wide - 1 : 1 }, button);
    headings.set(column.id, cell);
    return column.wide ? [cell, h("td", { class: "ends" })] : [cell];
  }));
  const grid = h("table", {}, h("caption", { class: "unseen" }, label), h("thead", {}, head), body);
  const element = h("div", { class: "listing" }, h("div", { class: "row" }, search, count), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, grid), pager);

  function order(column) {
    const same = view.sort === column.id;
    change({ sort: column.id, desc: same ? !view.desc : Boolean(column.number), page: 0 });
  }

  function change(more) {
    Object.assign(view, more);
    changed?.(view);
    draw();
  }

  function draw() {
    const words = (view.find ?? "").trim().toLowerCase();
    const column = columns.find((each) => each.id === view.sort);
    let found = words ? rows.filter((row) => columns[0].sort(row).toLowerCase().includes(words)) : rows;
    if (column) found = [...found].sort(by(column, view.desc));
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    view.page = Math.min(Math.max(0, view.page ?? 0), pages - 1);
    for (const [id, cell] of headings) {
      cell.setAttribute("aria-sort", id !== view.sort ? "none" : view.desc ? "descending" : "ascending");
    }
    const shown = found.slice(view.page * PAGE, (view.page + 1) * PAGE);
    put(body, shown.map((row) => h("tr", {}, columns.flatMap((each) => each.cells(row)))));
    count.textContent = words ? `${whole(found.length)} of ${whole(rows.length)} ${name}s` : `${whole(rows.length)} ${name}${rows.length === 1 ? "" : "s"}`;
    put(pager, pages === 1 ? null : [
      h("button", { type: "button", "data-id": "before", disabled: view.page === 0, onclick: () => change({ page: view.page - 1 }) }, "Previous"),
      h("span", {}, `Page ${view.page + 1} of ${pages}`),
      h("button", { type: "button", "data-id": "after", disabled: view.page === pages - 1, onclick: () => change({ page: view.page + 1 }) }, "Next"),
    ]);
    element.shown = shown;
    element.dispatchEvent(new CustomEvent("drawn", { detail: { shown, found } }));
  }

  element.show = (next) => { rows = next; draw(); };
  draw();
  return element;
}

/** The view of a table that an address keeps. */
export const viewOf = (params) => ({ sort: params.get("sort") ?? "", desc: params.get("desc") === "1", find: params.get("find") ?? "", page: Math.floor(Number(params.get("page"))) || 0 });

/** Keep the view of a table in the address. */
export const keepView = (view) => keep({ sort: view.sort, desc: view.desc ? "1" : null, find: view.find, page: view.page || null });

/** Unknown values come last, whichever way is up. */
function by(column, desc) {
  return (a, b) => {
    const [x, y] = [column.sort(a), column.sort(b)];
    if (x === null || x === undefined) return y === null || y === undefined ? 0 : 1;
    if (y === null || y === undefined) return -1;
    const order = typeof x === "number" ? x - y : x.localeCompare(y, undefined, { numeric: true });
    return desc ? -order : order;
  };
}
