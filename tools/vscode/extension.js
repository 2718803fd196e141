// Starts `pto-jax lsp` for files *.pto. The server does everything; this is its client.
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const SETTINGS = ["profile", "level", "portable", "auto_sync", "language"];
let client;

function settings() {
  const chosen = vscode.workspace.getConfiguration("pto");
  const values = SETTINGS.map((name) => [name, chosen.get(name)]).filter(([, value]) => value !== null);
  return Object.fromEntries(values);
}

async function start() {
  const [command, ...args] = vscode.workspace.getConfiguration("pto").get("command");
  client = new LanguageClient(
    "pto",
    "PTO",
    { command, args },
    { documentSelector: [{ language: "pto" }], initializationOptions: settings() },
  );
  try {
    await client.start();
  } catch (error) {
    vscode.window.showErrorMessage(
      `PTO: ${command} does not start (${error.message}). ` +
        "Install it with pip install 'pto_jax[lsp]', or set pto.command to its path.",
    );
  }
}

async function restart() {
  await client?.stop().catch(() => {});
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("pto.restart", restart),
    vscode.workspace.onDidChangeConfiguration((e) => e.affectsConfiguration("pto") && restart()),
  );
  await start();
}

module.exports = { activate, deactivate: () => client?.stop() };
