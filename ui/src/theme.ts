/** Light, dark, or as the system has it; rows that are compact or comfortable. */

export type Theme = "system" | "light" | "dark";
export type Rows = "compact" | "comfortable";
const THEME = "omnigraph-theme";
const ROWS = "omnigraph-rows";
const watchers = new Set<() => void>();

export function chosenTheme(): Theme {
  const kept = localStorage.getItem(THEME);
  return kept === "light" || kept === "dark" ? kept : "system";
}

export function chosenRows(): Rows {
  return localStorage.getItem(ROWS) === "comfortable" ? "comfortable" : "compact";
}

export function chooseTheme(theme: Theme): void {
  keep(THEME, theme === "system" ? null : theme);
}

export function chooseRows(rows: Rows): void {
  keep(ROWS, rows === "compact" ? null : rows);
}

/** Only what differs from the usual is kept. */
function keep(name: string, value: string | null): void {
  if (value === null) localStorage.removeItem(name);
  else localStorage.setItem(name, value);
  applyLook();
}

export function applyLook(): void {
  const root = document.documentElement;
  const [theme, rows] = [chosenTheme(), chosenRows()];
  if (theme === "system") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", theme);
  root.setAttribute("data-rows", rows);
  for (const watcher of watchers) watcher();
}

/** Call back when colours or rows may have changed: somebody chose others, or the system did. */
export function watchLook(watcher: () => void): () => void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  watchers.add(watcher);
  system.addEventListener("change", watcher);
  return () => {
    watchers.delete(watcher);
    system.removeEventListener("change", watcher);
  };
}
