// Builds the page into dist/, which is committed: a machine with only Rust builds the console.
// `node build.mjs --check` builds nothing and fails if dist/ differs from what the sources give.
import { readFile, writeFile, mkdir } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const COMPRESSED_MAX = 150 * 1024;

const bundle = await build({
  entryPoints: { console: "src/main.tsx" },
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  outdir: "dist",
  write: false,
});
const files = new Map(bundle.outputFiles.map((file) => [file.path.split("/").at(-1), Buffer.from(file.contents)]));
files.set("index.html", await readFile("src/index.html"));
files.set("icon.svg", await readFile("src/icon.svg"));

const compressed = [...files.values()].reduce((sum, bytes) => sum + gzipSync(bytes, { level: 9 }).length, 0);
if (compressed > COMPRESSED_MAX) {
  throw new Error(`the page has ${compressed} bytes compressed, more than ${COMPRESSED_MAX}`);
}
if (process.argv.includes("--check")) {
  for (const [name, bytes] of files) {
    const committed = await readFile(`dist/${name}`).catch(() => Buffer.alloc(0));
    if (!committed.equals(bytes)) throw new Error(`dist/${name} is not what the sources give: run npm run build`);
  }
} else {
  await mkdir("dist", { recursive: true });
  for (const [name, bytes] of files) await writeFile(`dist/${name}`, bytes);
}
console.log(`${files.size} files, ${compressed} bytes compressed`);
