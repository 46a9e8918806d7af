// Builds the page into the package of the server. The same sources and versions give the same bytes.
import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const OUT = process.argv[2] ?? join(HERE, "..", "src", "omnigraph", "server", "static");
const BUDGETS = { main: 40_000, editor: 125_000, "schema-editor": 125_000, drawing: 66_000, layout: 20_000, all: 250_000 };

/** All sources of the page, as paths from ui/, sorted. */
async function sources(folder = HERE) {
  const found = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.name === "node_modules") continue;
    if (entry.isDirectory()) found.push(...(await sources(path)));
    else found.push(relative(HERE, path).split(sep).join("/"));
  }
  return found.sort();
}

/** One hash over the names and contents of all sources; a plain test in Python computes the same. */
async function hashSources() {
  const hash = createHash("sha256");
  for (const name of await sources()) {
    hash.update(name).update("\0").update(await readFile(join(HERE, name))).update("\0");
  }
  return hash.digest("hex");
}

/** The packages whose files are in the bundle, with their licences. */
async function licences(inputs) {
  const packages = new Map();
  for (const input of inputs) {
    const match = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (!match || packages.has(match[1])) continue;
    const folder = join(HERE, "node_modules", match[1]);
    const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const file = (await readdir(folder)).find((name) => /^licen[cs]e/i.test(name));
    packages.set(match[1], `${match[1]} ${version} (${license})\n\n${file ? await readFile(join(folder, file), "utf8") : ""}`);
  }
  return [...packages.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, text]) => text.trim()).join("\n\n----\n\n") + "\n";
}

const result = await build({
  entryPoints: { main: join(HERE, "src/main.tsx"), style: join(HERE, "src/style.css"), layout: join(HERE, "src/layout.ts") },
  outdir: join(OUT, "assets"),
  bundle: true,
  minify: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  define: { "process.env.NODE_ENV": '"production"' },
  metafile: true,
  write: false,
  legalComments: "none",
  absWorkingDir: HERE,
});

await rm(join(OUT, "assets"), { recursive: true, force: true });
await mkdir(join(OUT, "assets"), { recursive: true });
const files = result.outputFiles.map((file) => ({ name: file.path.split(sep).at(-1), contents: file.contents }));
for (const { name, contents } of files) await writeFile(join(OUT, "assets", name), contents);
const named = (stem, ending) => files.find((file) => file.name.startsWith(`${stem}-`) && file.name.endsWith(ending)).name;
const page = (await readFile(join(HERE, "index.html"), "utf8"))
  .replace("{{style}}", named("style", ".css"))
  .replace("{{main}}", named("main", ".js"))
  .replace("{{layout}}", named("layout", ".js"));
await writeFile(join(OUT, "index.html"), page);
await writeFile(join(OUT, "icon.svg"), await readFile(join(HERE, "icon.svg")));
await writeFile(join(OUT, "LICENSES.txt"), await licences(Object.keys(result.metafile.inputs)));
await writeFile(join(OUT, "BUILD.json"), `${JSON.stringify({ sources: await hashSources() }, null, 2)}\n`);

const sizes = new Map(files.map(({ name, contents }) => [name, gzipSync(contents, { level: 9 }).length]));
let total = 0;
for (const [name, size] of [...sizes].sort()) {
  total += size;
  console.log(`${name.padEnd(28)} ${String(size).padStart(8)} bytes gzipped`);
}
console.log(`${"all".padEnd(28)} ${String(total).padStart(8)} of ${BUDGETS.all}`);
const base = (path) => path.split("/").at(-1);
/** The files that a browser must have before it can show anything: those that are imported, not those that are asked for later. */
function imported(path, seen = new Set()) {
  if (seen.has(path)) return seen;
  seen.add(path);
  for (const each of result.metafile.outputs[path].imports) if (each.kind === "import-statement") imported(each.path, seen);
  return seen;
}
const entry = Object.keys(result.metafile.outputs).find((path) => base(path).startsWith("main-"));
const needed = new Set([...imported(entry)].map(base));
const first = [...sizes].filter(([name]) => needed.has(name) || name.startsWith("style-")).reduce((sum, [, size]) => sum + size, 0);
console.log(`${"first load".padEnd(28)} ${String(first).padStart(8)} of ${BUDGETS.main}`);
const over = [first > BUDGETS.main && `main and style: ${first} of ${BUDGETS.main}`, total > BUDGETS.all && `all: ${total} of ${BUDGETS.all}`];
for (const part of ["editor", "schema-editor", "drawing", "layout"]) {
  const path = Object.keys(result.metafile.outputs).find((each) => base(each).startsWith(`${part}-`) && !base(each).slice(part.length + 1).includes("-"));
  const size = [...imported(path)].map(base).filter((name) => !needed.has(name)).reduce((sum, name) => sum + sizes.get(name), 0);
  console.log(`${part.padEnd(28)} ${String(size).padStart(8)} of ${BUDGETS[part]}`);
  if (size > BUDGETS[part]) over.push(`${part}: ${size} of ${BUDGETS[part]}`);
}
const failed = over.filter(Boolean);
if (failed.length > 0) {
  console.error(`over budget: ${failed.join("; ")}`);
  process.exit(1);
}
