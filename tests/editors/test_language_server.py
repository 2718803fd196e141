"""The language server through its protocol, as an editor speaks it: in a process of its own."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import pytest
from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from tests.cli.conftest import Commands, commands as commands

ROOT = Path(__file__).parents[2]
URI = "file:///kernels/k.pto"
TEXT = "// größe 😀\n%d = tadd %a, %b : !pto.tile<16x16xf32>\n%e = tabs %d : !pto.tile<16x16xf32>\n"
BAD = TEXT.replace("%b : !pto.tile<16x16xf32>", "%b : !pto.tile<16x16xf32>, !pto.tile<16x16xf16>")
T = TypeVar("T")


class Editor:
    """An editor with one text; its requests wait for the answer."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.client = LanguageClient("test", "1")
        self.runner = runner
        self.version = 0
        self.published: list[lsp.PublishDiagnosticsParams] = []
        self.shown: list[str] = []

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
        def published(params: lsp.PublishDiagnosticsParams) -> None:
            self.published.append(params)

        @self.client.feature(lsp.WINDOW_SHOW_MESSAGE)  # type: ignore[untyped-decorator]
        def message(params: lsp.ShowMessageParams) -> None:
            self.shown.append(params.message)

    def ask(self, request: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(asyncio.wait_for(request, 20))

    async def _start(self, *options: str) -> lsp.InitializeResult:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        await self.client.start_io(sys.executable, "-m", "pto_jax", "lsp", *options, env=environment)
        asked = lsp.InitializeParams(lsp.ClientCapabilities(), initialization_options={"profile": "a5"})
        answer = await self.client.initialize_async(asked)
        self.client.initialized(lsp.InitializedParams())
        return answer

    def start(self, *options: str) -> lsp.InitializeResult:
        return self.ask(self._start(*options))

    def write(self, text: str) -> list[lsp.Diagnostic]:
        """Give the text its contents; what the server publishes about them."""
        self.version += 1

        async def written() -> list[lsp.Diagnostic]:
            if self.version == 1:
                item = lsp.TextDocumentItem(URI, "pto", 1, text)
                self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
            else:
                name = lsp.VersionedTextDocumentIdentifier(self.version, URI)
                whole = lsp.TextDocumentContentChangeWholeDocument(text)
                self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(name, [whole]))
            while not self.published or self.published[-1].version != self.version:
                await asyncio.sleep(0.005)
            return list(self.published[-1].diagnostics)

        return self.ask(written())

    def stop(self) -> None:
        async def stopped() -> None:
            await self.client.shutdown_async(None)
            self.client.exit(None)
            await self.client.stop()  # type: ignore[no-untyped-call]

        self.ask(stopped())


@pytest.fixture(scope="module")
def editor() -> Iterator[Editor]:
    with asyncio.Runner() as runner:
        editor = Editor(runner)
        capabilities = editor.start("--portable").capabilities
        assert capabilities.hover_provider and capabilities.definition_provider
        assert isinstance(capabilities.text_document_sync, lsp.TextDocumentSyncOptions)
        assert capabilities.text_document_sync.change == lsp.TextDocumentSyncKind.Full
        assert editor.write(TEXT) == []
        yield editor
        editor.stop()


def place(line: int, character: int) -> dict[str, Any]:
    return {"text_document": lsp.TextDocumentIdentifier(URI), "position": lsp.Position(line, character)}


def test_findings_have_places_in_the_units_of_the_client(editor: Editor) -> None:
    (found, *_) = editor.write(BAD)
    assert found.severity == lsp.DiagnosticSeverity.Error and found.source == "pto-jax"
    assert found.range.start == lsp.Position(1, 14) and "src1 has element type f16" in found.message
    (unread,) = editor.write(TEXT + "/* 😀😀 */ %")
    assert unread.range.start.line == 3
    wide = '%a = tabs %b {key = "😀😀", ;'
    (unread,) = editor.write(wide)
    assert unread.range.start == lsp.Position(0, len(wide.encode("utf-16-le")) // 2 - 1)
    assert editor.write(TEXT) == []


def test_hover_shows_declarations_and_types(editor: Editor) -> None:
    answer = editor.ask(editor.client.text_document_hover_async(lsp.HoverParams(**place(1, 6))))
    assert answer is not None and isinstance(answer.contents, lsp.MarkupContent)
    assert answer.contents.kind == lsp.MarkupKind.Markdown
    assert answer.contents.value.startswith("# tadd: ")
    answer = editor.ask(editor.client.text_document_hover_async(lsp.HoverParams(**place(2, 10))))
    assert answer is not None and isinstance(answer.contents, lsp.MarkupContent)
    assert answer.contents.value.startswith("`%d: !pto.tile")
    assert editor.ask(editor.client.text_document_hover_async(lsp.HoverParams(**place(0, 1)))) is None


def test_definitions_and_completions(editor: Editor) -> None:
    found = editor.ask(editor.client.text_document_definition_async(lsp.DefinitionParams(**place(2, 11))))
    assert found == lsp.Location(URI, lsp.Range(lsp.Position(1, 0), lsp.Position(1, 2)))
    editor.write(TEXT + "%f = ta")
    offered = editor.ask(editor.client.text_document_completion_async(lsp.CompletionParams(**place(3, 7))))
    assert isinstance(offered, list)
    (add,) = (i for i in offered if i.label == "tadd")
    assert add.kind == lsp.CompletionItemKind.Function and add.detail == "Lane-wise sum of two tiles."
    assert editor.ask(
        editor.client.text_document_definition_async(lsp.DefinitionParams(**place(99, 99)))
    ) is None  # fmt: skip
    editor.write(TEXT)


def test_settings_are_taken_from_the_client_and_wrong_ones_told(editor: Editor) -> None:
    wide = "%d = tadd %a, %b : !pto.tile<16x16xi64>"

    def configure(settings: dict[str, Any]) -> None:
        params = lsp.DidChangeConfigurationParams(settings)
        editor.client.workspace_did_change_configuration(params)

    before = editor.write(wide)
    configure({"pto": {"portable": False, "profile": "cpu_sim"}})
    assert len(editor.write(wide + " ")) < len(before)
    configure({"pto": {"profile": "a9"}})
    editor.write(TEXT)
    assert editor.shown == ["pto-jax: setting profile: got 'a9'; allowed: null, cpu_sim, a2a3, a5"]
    configure({"pto": {"profile": "a5", "portable": True}})


def test_without_pygls_it_is_one_clear_line(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pto_jax.editors.language_server", raising=False)
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    assert commands("lsp") == 2
    assert "is not installed; try: pip install 'pto_jax[lsp]'" in commands.err


@pytest.mark.slow
def test_it_ends_without_an_error_while_the_client_keeps_its_input_open() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "pto_jax", "lsp"]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment) as server:
        assert server.stdin is not None and server.stdout is not None and server.stderr is not None

        def send(stream: IO[bytes], method: str, number: int | None = None) -> None:
            said: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": {"capabilities": {}}}
            said |= {} if number is None else {"id": number}
            body = json.dumps(said).encode()
            stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            stream.flush()

        send(server.stdin, "initialize", 1)
        assert server.stdout.readline().startswith(b"Content-Length")
        send(server.stdin, "shutdown", 2)
        send(server.stdin, "exit")
        assert server.wait(timeout=60) == 0
        assert b"Traceback" not in server.stderr.read()


def test_edits_are_answered_through_the_protocol(editor: Editor) -> None:
    wrong = editor.write(TEXT.replace("tadd", "  tadx"))
    text = lsp.TextDocumentIdentifier(URI)
    asked = lsp.CodeActionParams(text, wrong[0].range, lsp.CodeActionContext(wrong))
    actions: Any = editor.ask(editor.client.text_document_code_action_async(asked))
    assert "Replace by tadd" in [a.title for a in actions]
    editor.write(TEXT.replace("tadd", "  tadd"))
    options = lsp.FormattingOptions(2, True)
    made: Any = editor.ask(
        editor.client.text_document_formatting_async(lsp.DocumentFormattingParams(text, options))
    )
    assert made[0].new_text == TEXT
    editor.write(TEXT)
    at = lsp.Position(1, 0)
    renamed: Any = editor.ask(editor.client.text_document_rename_async(lsp.RenameParams(text, at, "sum")))
    assert [e.new_text for e in renamed.changes[URI]] == ["%sum", "%sum"]
    found: Any = editor.ask(
        editor.client.text_document_references_async(
            lsp.ReferenceParams(lsp.ReferenceContext(False), text, at)
        )
    )
    assert [r.range.start.line for r in found] == [2]
    outline: Any = editor.ask(
        editor.client.text_document_document_symbol_async(lsp.DocumentSymbolParams(text))
    )
    assert [s.name for s in outline] == ["%d", "%e"]
    whole = lsp.Range(lsp.Position(0, 0), lsp.Position(9, 0))
    hints: Any = editor.ask(editor.client.text_document_inlay_hint_async(lsp.InlayHintParams(text, whole)))
    assert len(hints) == 2 and all(h.label.startswith(": ") for h in hints)
