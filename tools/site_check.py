"""The built site in a browser without a window: ``python -m tools.site_check build/site``.

Every page is opened at 400 and at 1,400 pixels: nothing may stand out of the window to the right, every
link leads to a page and an anchor that are there, text is readable in light and dark colours, and the
search finds an instruction. Needs Chromium or Chrome on the path.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = (400, 1400)
SEARCHED = "tcvt"
#: Of so many pages of instructions, which have one layout, one is opened.
EVERY = 12
SECONDS = 420

#: A page on which every check has to find something, so that no run passes without looking.
PLANTED = """<!doctype html><body style="background: white"><article><p style="color: #ddd">pale</p>
<div style="width: 2000px">wide</div></article></body>"""
_SEEN = (
    *(f"planted.html: 20\\d\\d of {width} pixels wide" for width in WIDTHS),
    "planted.html: contrast in light",
    "planted.html: contrast in dark",
)

#: Opens each page in a frame of each width and sends what is wrong to the server.
CHECKS = """<!doctype html><meta charset="utf-8"><body><script>
const pages = PAGES, widths = WIDTHS, problems = [];
const wait = ms => new Promise(done => setTimeout(done, ms));
function light(colour) {
  const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(v => {
    v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function ground(view, element) {
  for (let e = element; e; e = e.parentElement) {
    const colour = view.getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(colour) && colour !== 'transparent') return colour;
  }
  return 'rgb(255, 255, 255)';
}
function unreadable(view) {
  const found = new Set();
  for (const e of view.document.querySelectorAll('article :is(p, li, td, th, a, code, pre, span, h1, h2)')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    if (!e.getClientRects().length || e.closest('.headerlink, .copybtn, svg')) continue;
    const [a, b] = [light(view.getComputedStyle(e).color), light(ground(view, e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 3) found.add(`${e.tagName.toLowerCase()}.${e.className} ${ratio.toFixed(1)}`);
  }
  return [...found].slice(0, 3);
}
async function open(page, width) {
  const frame = document.createElement('iframe');
  frame.style.cssText = `width:${width}px;height:900px;border:0`;
  frame.src = '/' + page;
  await new Promise(done => { frame.onload = done; document.body.append(frame); });
  return frame;
}
async function check(page, width) {
  const frame = await open(page, width), view = frame.contentWindow, root = view.document.documentElement;
  if (root.scrollWidth > width) problems.push(`${page}: ${root.scrollWidth} of ${width} pixels wide`);
  for (const theme of ['light', 'dark']) {
    view.document.body.dataset.theme = theme;
    for (const text of unreadable(view)) problems.push(`${page}: contrast in ${theme} colours: ${text}`);
  }
  frame.remove();
}
async function search(word) {
  const frame = await open(`search.html?q=${word}`, 1400);
  for (let i = 0; i < 100; i++) {
    const hits = [...frame.contentWindow.document.querySelectorAll('#search-results a')];
    if (hits.some(a => a.href.includes(`/${word}.html`))) return;
    await wait(100);
  }
  problems.push(`search.html: ${word} is not among the results`);
}
(async () => {
  for (const width of widths) for (const page of pages) await check(page, width);
  await search(SEARCHED);
  await fetch('/problems', {method: 'POST', body: JSON.stringify(problems)});
})();
</script></body>"""


class _Links(HTMLParser):
    """Targets and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key == "id" and value:
                self.anchors.add(value)
            elif value and (tag, key) in (("a", "href"), ("img", "src"), ("link", "href"), ("script", "src")):
                self.targets.add(value)


def broken_links(site: Path) -> list[str]:
    """Links inside the site that lead to no file or to no anchor of a page."""
    pages: dict[Path, _Links] = {}
    for file in site.rglob("*.html"):
        pages[file] = _Links()
        pages[file].feed(file.read_text(encoding="utf-8"))
    problems = []
    for file, links in pages.items():
        for target in sorted(links.targets):
            url = urlsplit(target)
            if url.scheme or url.netloc:
                continue
            path = (file.parent / unquote(url.path)).resolve() if url.path else file
            path = path / "index.html" if path.is_dir() else path
            anchors = pages[path].anchors if path in pages else set()
            if not path.exists() or (url.fragment and path in pages and unquote(url.fragment) not in anchors):
                problems.append(f"{file.relative_to(site)}: {target} leads nowhere")
    return problems


def chosen(site: Path) -> list[str]:
    """The pages that are opened."""
    files = sorted(f.relative_to(site).as_posix() for f in site.rglob("*.html"))
    files = [f for f in files if not f.startswith(("_", "genindex", "search"))]
    alike = [f for f in files if "/instructions/" in f and not f.endswith("index.html")]
    return [f for f in files if f not in alike] + alike[::EVERY]


class _Server(SimpleHTTPRequestHandler):
    """The files of the site, the page of checks, and its answer."""

    def __init__(self, *args: object, page: str, answer: Callable[[list[str]], None], directory: str) -> None:
        self._page, self._answer = page, answer
        super().__init__(*args, directory=directory)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        page = {"/checks": self._page, "/planted.html": PLANTED}.get(self.path)
        if page is None:
            # A frame that is removed closes its connections.
            with contextlib.suppress(ConnectionError):
                super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(page.encode())

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing: the browser asks for thousands of files."""


def opened(site: Path, browser: str, pages: Sequence[str]) -> list[str]:
    """What is wrong with pages in a browser; TimeoutError when it does not answer."""
    answered = threading.Event()
    problems: list[str] = []

    def answer(sent: list[str]) -> None:
        problems.extend(sent)
        answered.set()

    page = CHECKS.replace("PAGES", json.dumps(["planted.html", *pages])).replace("WIDTHS", json.dumps(WIDTHS))
    page = page.replace("SEARCHED", json.dumps(SEARCHED))
    handler = partial(_Server, page=page, answer=answer, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}")
        address = f"http://127.0.0.1:{server.server_port}/checks"
        # Without a port for debugging, a browser without a window ends when the page is loaded.
        command = [browser, *options, "--remote-debugging-port=0", "--window-size=1500,1000", address]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if not answered.wait(SECONDS):
                raise TimeoutError(f"{browser} did not check {len(pages)} pages within {SECONDS} s")
        finally:
            process.kill()
            process.wait()
            server.shutdown()
    unseen = [f"{seen}: not noticed" for seen in _SEEN if not any(re.match(seen, p) for p in problems)]
    return [p for p in problems if not p.startswith("planted.html")] + unseen


def main(argv: Sequence[str] | None = None) -> int:
    """Check a site: exit status 1 where something is wrong, 2 without a site or a browser."""
    parser = argparse.ArgumentParser(description="Check the built site in a browser.")
    parser.add_argument("site", type=Path, help="the folder that Sphinx wrote")
    args = parser.parse_args(argv)
    site = args.site.resolve()
    browser = next((b for b in BROWSERS if shutil.which(b)), None)
    if not (site / "index.html").is_file() or browser is None:
        print("site_check: a built site and Chromium or Chrome are needed", file=sys.stderr)
        return 2
    pages = chosen(site)
    problems = broken_links(site) + opened(site, browser, pages)
    print("\n".join([*problems, f"{len(pages)} pages at {WIDTHS} pixels: {len(problems)} problems"]))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
