// Writes dist/: the bundled client, and the grammar that the Python package has.
const fs = require("fs");
const path = require("path");
const esbuild = require("esbuild");

const grammar = path.join(__dirname, "../../pto_jax/editors/pto.tmLanguage.json");
fs.mkdirSync(path.join(__dirname, "dist"), { recursive: true });
fs.copyFileSync(grammar, path.join(__dirname, "dist/pto.tmLanguage.json"));
esbuild.buildSync({
  entryPoints: [path.join(__dirname, "extension.js")],
  outfile: path.join(__dirname, "dist/extension.js"),
  bundle: true,
  platform: "node",
  external: ["vscode"],
  minify: true,
});
