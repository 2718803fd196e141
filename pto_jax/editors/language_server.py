"""A language server for PTO text, over standard input and output. Needs the extra ``lsp`` (pygls).

Diagnostics are those of :func:`pto_jax.verify`, hover shows pages of the reference and types of values;
values and functions have definitions, references and new names, instructions and names are completed, texts
are formatted, and fixes of diagnostics are code actions. Whole texts are sent.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping, Sequence
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec

from ..errors import ArgumentError, Diagnostic
from . import documents, edits

#: Seconds without a change after which a text is verified.
_PAUSE = 0.05
_SEVERITIES = {"error": lsp.DiagnosticSeverity.Error, "warning": lsp.DiagnosticSeverity.Warning}
_KINDS = {
    "instruction": lsp.CompletionItemKind.Function,
    "operation": lsp.CompletionItemKind.Keyword,
    "value": lsp.CompletionItemKind.Variable,
    "attribute": lsp.CompletionItemKind.Property,
    "constant": lsp.CompletionItemKind.EnumMember,
}


class PtoServer(LanguageServer):
    """The server with its settings, and the texts that it has read."""

    def __init__(self, settings: documents.Settings, version: str) -> None:
        super().__init__("pto-jax", version, text_document_sync_kind=lsp.TextDocumentSyncKind.Full)
        self.settings = settings
        self._read: dict[str, documents.Document] = {}

    def document(self, uri: str) -> documents.Document:
        """The present version of a text."""
        source = self.workspace.get_text_document(uri).source
        document = self._read.get(uri)
        if document is None or document.source != source:
            document = self._read[uri] = documents.Document(uri, source)
        return document

    def forget(self, uri: str) -> None:
        """Drop a text that was closed."""
        self._read.pop(uri, None)

    def places(self, uri: str) -> Places:
        """Converts positions of a text."""
        codec = self.workspace.get_text_document(uri).position_codec
        return Places(self.document(uri).source, codec)

    def configure(self, settings: object) -> None:
        """Take the settings that a client sends, under ``pto`` or as they are, and tell what is wrong."""
        inner = settings.get("pto", settings) if isinstance(settings, Mapping) else settings
        if not isinstance(inner, Mapping):
            return
        try:
            self.settings = self.settings.changed(inner)
        except ArgumentError as error:
            said = lsp.ShowMessageParams(lsp.MessageType.Error, f"pto-jax: {error}")
            self.window_show_message(said)

    def publish(self, uri: str) -> None:
        """Send what is wrong with a text."""
        text = self.workspace.get_text_document(uri)
        places = self.places(uri)
        results = [places.diagnostic(d) for d in self.document(uri).diagnostics(self.settings)]
        sent = lsp.PublishDiagnosticsParams(uri, results, text.version)
        self.text_document_publish_diagnostics(sent)


class Places:
    """Positions of a text in the units of a client, and as characters."""

    def __init__(self, source: str, codec: PositionCodec) -> None:
        self.source = source
        self._codec = codec
        self._lines = source.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def position(self, at: int) -> lsp.Position:
        """A character's position for the client."""
        line = self.source.count("\n", 0, at)
        return self._client(line, at - self._starts[line])

    def character(self, at: lsp.Position) -> int:
        """The character at a client's position; the end of the line where there is none."""
        if at.line >= len(self._lines):
            return len(self.source)
        line, units = self._lines[at.line], 0
        for column, character in enumerate(line):
            if units >= at.character:
                return self._starts[at.line] + column
            units += self._codec.client_num_units(character)
        return self._starts[at.line] + len(line)

    def diagnostic(self, diagnostic: Diagnostic) -> lsp.Diagnostic:
        """A finding for the client; one without a place is at the first line."""
        span = diagnostic.span
        line, column, length = (span.line - 1, span.col - 1, span.length) if span is not None else (0, 0, 1)
        about = ": ".join(filter(None, (diagnostic.instruction, diagnostic.operand, diagnostic.message)))
        return lsp.Diagnostic(
            lsp.Range(self._client(line, column), self._client(line, column + length)),
            about,
            severity=_SEVERITIES[diagnostic.severity],
            code=diagnostic.rule,
            source="pto-jax",
            data={"fix": diagnostic.fix} if diagnostic.fix else None,
        )

    def range(self, name: documents.Name) -> lsp.Range:
        """The place of a name."""
        return lsp.Range(self.position(name.start), self.position(name.end))

    def part(self, start: int, end: int) -> lsp.Range:
        """The place of some characters."""
        return lsp.Range(self.position(start), self.position(end))

    def symbol(self, symbol: edits.Symbol) -> lsp.DocumentSymbol:
        """An entry of the outline."""
        kinds = {"function": lsp.SymbolKind.Function, "value": lsp.SymbolKind.Variable}
        return lsp.DocumentSymbol(
            symbol.name.text,
            kinds[symbol.kind],
            self.part(symbol.name.start, symbol.end),
            self.range(symbol.name),
            detail=symbol.detail or None,
            children=[self.symbol(c) for c in symbol.children],
        )

    def _client(self, line: int, column: int) -> lsp.Position:
        text = self._lines[line] if line < len(self._lines) else ""
        return lsp.Position(line, self._codec.client_num_units(text[:column]))


def make_server(settings: documents.Settings, version: str) -> PtoServer:
    """A server of a version, which answers with some settings until the client sends others."""
    server = PtoServer(settings, version)

    @server.feature(lsp.INITIALIZE)
    def initialised(params: lsp.InitializeParams) -> None:
        server.configure(params.initialization_options)

    @server.feature(lsp.INITIALIZED)
    def ready(params: lsp.InitializedParams) -> None:
        documents.load_tables(server.settings)
        # What is loaded now stays; to look through it for garbage would double the time of an answer.
        gc.collect()
        gc.freeze()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(params: lsp.DidChangeConfigurationParams) -> None:
        server.configure(params.settings)
        for uri in list(server.workspace.text_documents):
            server.publish(uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        server.publish(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        await asyncio.sleep(_PAUSE)
        uri, version = params.text_document.uri, params.text_document.version
        text = server.workspace.text_documents.get(uri)
        if text is not None and text.version == version:
            server.publish(uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.forget(uri)
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    _answer(server)
    _answer_edits(server)
    return server


def _answer(server: PtoServer) -> None:
    """Define what is answered about places of a text."""

    def at(params: Any) -> tuple[str, int]:
        uri = params.text_document.uri
        return uri, server.places(uri).character(params.position)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        uri, position = at(params)
        text = server.document(uri).hover(position)
        return None if text is None else lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text))

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def definition(params: lsp.DefinitionParams) -> lsp.Location | None:
        uri, position = at(params)
        name = server.document(uri).definition(position)
        return None if name is None else lsp.Location(uri, server.places(uri).range(name))

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=["%", "."]))
    def completion(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        uri, position = at(params)
        return [_item(c) for c in server.document(uri).completions(position)]


def _answer_edits(server: PtoServer) -> None:
    """Define what is answered about changes of a text, its outline and its types."""

    def changes(uri: str, made: Sequence[edits.Edit]) -> list[lsp.TextEdit]:
        places = server.places(uri)
        return [lsp.TextEdit(places.part(e.start, e.end), e.text) for e in made]

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def formatting(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        uri = params.text_document.uri
        source = server.document(uri).source
        text = edits.formatted(source)
        return [] if text == source else changes(uri, [edits.Edit(0, len(source), text)])

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def references(params: lsp.ReferenceParams) -> list[lsp.Location]:
        uri, places = params.text_document.uri, server.places(params.text_document.uri)
        result = edits.references(server.document(uri), places.character(params.position))
        declared = params.context.include_declaration
        definition = server.document(uri).definition(places.character(params.position))
        return [lsp.Location(uri, places.range(n)) for n in result if declared or n != definition]

    @server.feature(lsp.TEXT_DOCUMENT_RENAME)
    def rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit:
        uri, position = params.text_document.uri, server.places(params.text_document.uri)
        try:
            made = edits.renamed(server.document(uri), position.character(params.position), params.new_name)
        except ArgumentError as error:
            raise JsonRpcInvalidParams(str(error)) from None
        return lsp.WorkspaceEdit({uri: changes(uri, made)})

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        places = server.places(params.text_document.uri)
        return [places.symbol(s) for s in edits.symbols(server.document(params.text_document.uri))]

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def hints(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        places = server.places(params.text_document.uri)
        part = (places.character(params.range.start), places.character(params.range.end))
        result = edits.hints(server.document(params.text_document.uri), *part)
        return [lsp.InlayHint(places.position(at), t, kind=lsp.InlayHintKind.Type) for at, t in result]

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])
    )
    def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri, places = params.text_document.uri, server.places(params.text_document.uri)
        document, lines = server.document(uri), (params.range.start.line, params.range.end.line)
        made = []
        for diagnostic in document.diagnostics(server.settings):
            entry = places.diagnostic(diagnostic)
            if lines[0] <= entry.range.start.line <= lines[1]:
                for action in edits.actions(document, diagnostic, server.settings):
                    edit = lsp.WorkspaceEdit({uri: changes(uri, action.edits)})
                    kind = lsp.CodeActionKind.QuickFix
                    made.append(lsp.CodeAction(action.title, kind=kind, diagnostics=[entry], edit=edit))
        return made


def _item(completion: documents.Completion) -> lsp.CompletionItem:
    return lsp.CompletionItem(completion.text, kind=_KINDS[completion.kind], detail=completion.detail or None)
