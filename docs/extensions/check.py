"""python docs/extensions/check.py FOLDER: links inside the site lead somewhere, nothing is loaded from a network."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The names that links can lead to, the links, and what a browser loads with the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self.names.update(found[name] for name in ("id", "name") if name in found)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(found["href"])
        elif "src" in found or "data" in found:
            self.loaded.append(found.get("src") or found["data"])


def faults(folder: Path) -> list[str]:
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in folder.rglob("*.html")}
    found = []
    for file, page in pages.items():
        where = file.relative_to(folder)
        found += [f"{where} loads {one}" for one in page.loaded if _is_far(one)]
        for target in [*page.links, *(one for one in page.loaded if not _is_far(one))]:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            led = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not led.exists():
                found.append(f"{where}: {target} leads nowhere")
            elif parts.fragment and led in pages and unquote(parts.fragment) not in pages[led].names:
                found.append(f"{where}: nothing in {led.name} is called {parts.fragment}")
    for sheet in folder.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        found += [f"{sheet.relative_to(folder)} loads {one}" for one in re.findall(r"url\([\"']?(https?:[^)]*)", text)]
    return found


def _is_far(target: str) -> bool:
    return target.startswith("//") or urlsplit(target).scheme in ("http", "https")


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]).resolve())
    print("\n".join(wrong) or "all links inside the site lead somewhere, and nothing is loaded from elsewhere")
    sys.exit(bool(wrong))
