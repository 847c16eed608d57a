/** Where the analyst is, kept in the fragment of the address: a link keeps the view, never the token. */

/** The page's parts and its parameters: #/c/menu/answers?sort=mean is {parts: [c, menu, answers], ...}. */
export function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  return { parts, params: new URLSearchParams(query) };
}

/** The address of parts and parameters. */
export function address(parts, params = {}) {
  const query = params instanceof URLSearchParams ? params : new URLSearchParams();
  if (!(params instanceof URLSearchParams)) {
    for (const [name, value] of Object.entries(params)) {
      for (const each of Array.isArray(value) ? value : [value]) if (each !== undefined && each !== null && each !== "") query.append(name, each);
    }
  }
  const text = query.toString();
  return "#/" + parts.map(encodeURIComponent).join("/") + (text ? "?" + text : "");
}

/** Change parameters without a new entry in the history; null removes one. */
export function keep(changes) {
  const { parts, params } = here();
  for (const [name, value] of Object.entries(changes)) {
    params.delete(name);
    for (const each of Array.isArray(value) ? value : [value]) if (each !== null && each !== undefined && each !== "") params.append(name, each);
  }
  history.replaceState(null, "", address(parts, params));
}
