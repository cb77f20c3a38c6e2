"""How a page looks: light or dark as the reader's system is, on a phone and on paper too."""

COLORS_CSS = """
:root { --page: #f6f7f9; --card: #ffffff; --ink: #1d2430; --quiet: #5c6675; --line: #dfe3e9;
  --grid: #e5e5e5; --accent: #0b6bcb; --good: #0a7d4f; --open: #9a6300;
  --blue: #0072b2; --orange: #d55e00; --green: #009e73; --grey: #8c8c8c; }
@media screen and (prefers-color-scheme: dark) { :root { --page: #11141a; --card: #1a1f28; --ink: #e6e9ef;
  --quiet: #9aa5b5; --line: #2d3542; --grid: #2d3542; --accent: #6db3ff; --good: #4fd09a; --open: #f0b95a;
  --blue: #56b4e9; --orange: #f08a4b; --green: #35c797; --grey: #97a0ad; } }
"""

CSS = (
    COLORS_CSS
    + """:root { color-scheme: light dark; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, "Segoe UI", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 2.2rem 1.2rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 .8rem; }
h3 { font-size: .95rem; margin: 0 0 .5rem; color: var(--quiet); font-weight: 600; }
p { margin: .3rem 0; }
.verdict { font-size: 1.15rem; font-weight: 600; color: var(--open); }
.verdict.proved { color: var(--good); }
.quiet { color: var(--quiet); }
.tiles { display: flex; flex-wrap: wrap; gap: .7rem; margin: 1.4rem 0 0; padding: 0; list-style: none; }
.tiles li, figure, .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tiles li { flex: 1 1 auto; min-width: 104px; max-width: 260px; padding: .6rem .85rem; }
.tiles .name { display: block; font-size: .8rem; color: var(--quiet); }
.tiles .value { display: block; font-size: 1.15rem; font-weight: 650; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.tiles .quiet { font-size: .85rem; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: .9rem;
  align-items: start; }
.pictures .wide { grid-column: 1 / -1; }
.curves { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr)); gap: .9rem; }
.curves.even { grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); }
figure { margin: 0; padding: .7rem; break-inside: avoid; }
figure img { display: block; width: 100%; height: auto; border-radius: 5px; }
figure img { background: #10121a; max-height: 80vh; object-fit: contain; }
.curves img, .timeline img { background: none; max-height: none; }
.timeline { overflow-x: auto; } .timeline img { min-width: 620px; }
figcaption { font-size: .85rem; color: var(--quiet); padding-top: .5rem; }
.key { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin: 0 .15em 0 .5em; }
.tables { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 340px), 1fr)); gap: .9rem;
  align-items: start; }
.card { padding: .9rem 1rem; overflow-x: auto; }
.card + .card, .card + .tables, .tables + .card { margin-top: .9rem; }
.tables .card { margin-top: 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-top: 1px solid var(--line); }
tr:first-child > * { border-top: 0; }
th { color: var(--quiet); font-weight: 500; white-space: nowrap; }
td { overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.rounds th, .rounds td { text-align: right; white-space: nowrap; }
pre { margin: 0; font: .88rem/1.5 ui-monospace, "Cascadia Mono", Menlo, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere; }
summary { cursor: pointer; color: var(--accent); }
@media (max-width: 520px) { main { padding: 1.3rem .8rem 2rem; } h1 { font-size: 1.35rem; } }
@media print { :root { --page: #fff; } body { font-size: 11pt; } main { max-width: none; padding: 0; }
  .tiles li, tr, pre { break-inside: avoid; }
  h2, h3 { break-after: avoid; } figure img { max-height: 17cm; } .pictures { grid-template-columns: 1fr 1fr; }
  .curves, .curves.even { grid-template-columns: 1fr 1fr; }
  * { print-color-adjust: exact; } details { display: none; } }
"""
)


def document(title: str, body: str, *, css: str = "", after: str = "") -> str:
    """A page in one piece, of text that is escaped already; `after` follows what is shown."""
    # The policy keeps a browser from fetching or running anything, whatever names and paths may hold.
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{CSS}{css}</style>
</head>
<body>
<main>
{body}
</main>
{after}</body>
</html>
"""
