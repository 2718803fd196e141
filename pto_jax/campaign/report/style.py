"""The style of a report's page: light and dark, nothing loaded from elsewhere."""

from __future__ import annotations

#: Steps of the heat map.
LEVELS = 6
CSS = """
:root {
  color-scheme: light dark;
  --page: #fafbfc; --card: #ffffff; --ink: #1b2430; --soft: #5a6675; --edge: #d8dee6; --link: #0b57b0;
  --good: #1a7f4b; --bad: #b3261e; --bad-fill: #d9584f; --bar: #3f7fc4; --area: #3f7fc433; --never: #9a5b00;
  --h1: #e4effb; --h2: #c2dcf6; --h3: #93c0ec; --h4: #5a9bdc; --h5: #2a6db8; --h6: #0d4688;
  --t1: #1b2430; --t2: #1b2430; --t3: #1b2430; --t4: #0b1420; --t5: #ffffff; --t6: #ffffff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12161c; --card: #1a2028; --ink: #e6ebf2; --soft: #9aa7b6; --edge: #323c49; --link: #82b6f2;
    --good: #5bc98c; --bad: #ff8a80; --bad-fill: #e0675e; --bar: #5b9be0; --area: #5b9be033; --never: #e2ab5a;
    --h1: #1d2c3f; --h2: #1f3d60; --h3: #245488; --h4: #3574b8; --h5: #6aa6e3; --h6: #a9d0f8;
    --t1: #e6ebf2; --t2: #e6ebf2; --t3: #ffffff; --t4: #ffffff; --t5: #0b1420; --t6: #0b1420;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main, header, footer { max-width: 1240px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 28px; }
h1 { font-size: 1.6rem; margin: 0 0 2px; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 0 0 10px; }
h3 { font-size: 1rem; margin: 20px 0 6px; }
p { margin: 6px 0; } .soft { color: var(--soft); }
a { color: var(--link); } nav a { margin-right: 16px; } nav { margin: 12px 0 4px; }
section { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 18px 20px;
  margin: 18px 0; }
.figures { display: flex; flex-wrap: wrap; gap: 12px; margin: 16px 0 0; padding: 0; list-style: none; }
.figures li { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 8px 16px; }
.figures b { display: block; font-size: 1.4rem; font-variant-numeric: tabular-nums; }
.figures span { color: var(--soft); font-size: .85rem; }
.good { color: var(--good); } .bad { color: var(--bad); }
.scroll { overflow-x: auto; }
.tall { max-height: 75vh; overflow: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 8px; text-align: left; vertical-align: top; }
thead th { border-bottom: 1px solid var(--edge); font-weight: 600; }
td.n { text-align: right; }
.heat { font-size: 12px; border-collapse: separate; border-spacing: 2px; }
.heat th, .heat td { padding: 1px 4px; white-space: nowrap; }
.heat td { text-align: center; min-width: 38px; border-radius: 3px; }
.heat thead th { position: sticky; top: 0; background: var(--card); z-index: 1; text-align: center; }
.heat tbody th[scope=row] { position: sticky; left: 0; background: var(--card); font-weight: 400; }
.heat .group th { padding-top: 10px; font-weight: 600; color: var(--soft); }
td.never { color: var(--never); box-shadow: inset 0 0 0 1px var(--never); opacity: .75; }
.key { display: inline-block; min-width: 34px; padding: 0 6px; border-radius: 3px; text-align: center; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 6px 0; padding: 8px 10px;
  background: var(--page); border: 1px solid var(--edge); border-radius: 6px; }
details { border-top: 1px solid var(--edge); padding: 8px 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
summary .count { display: inline-block; min-width: 4.5em; font-weight: 600; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
.grid, .axis { stroke: var(--edge); } .line { fill: none; stroke: var(--bar); stroke-width: 2; }
.area { fill: var(--area); } .pause { stroke: var(--never); stroke-dasharray: 4 3; }
.bar { fill: var(--bar); } .beyond { fill: var(--bad-fill); }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(236px, 1fr)); gap: 14px; }
figure { margin: 0; border: 1px solid var(--edge); border-radius: 6px; padding: 8px 10px; }
figcaption { font-size: .85rem; } figcaption b { font-size: .95rem; }
.values { font-size: 13px; } .values td { overflow-wrap: anywhere; }
footer { padding-bottom: 32px; }
""" + "".join(f".h{n} {{ background: var(--h{n}); color: var(--t{n}); }}\n" for n in range(1, LEVELS + 1))
