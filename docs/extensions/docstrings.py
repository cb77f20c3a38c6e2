"""Docstrings of the code are plain text with backticks; here they become what Sphinx reads.

Signs that mean something to Sphinx and nothing to us are escaped, indented equations kept as they are, and a list of
attributes, each with its meaning on the same line, is set as a list. What stands in backticks is a link where a public
thing has that name, and code where none has.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

ATTRIBUTE = re.compile(r"^(\w+(?:, \w+)*) : (.*)$")
RULE = re.compile(r"^-{3,}\s*$")
# Where a name without its module may be from.
MODULES = (
    "dope",
    "dope.models",
    "dope.io",
    "dope.report",
    "dope.planning",
    "dope.protocols",
    "dope.flows",
    "dope.samples",
)


def readable(_app: Sphinx, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = _attributes(_escaped(_equations(lines)))


def dashed(_app: Sphinx, doctree: nodes.document) -> None:
    """The two hyphens that Sphinx puts between a parameter, or an error, and its meaning, as a dash."""
    for text in list(doctree.findall(nodes.Text)):
        found = re.match(r"\)? -- ", text)
        if found:
            text.parent.replace(text, nodes.Text(found[0].replace("--", "–") + text[found.end() :]))


def _equations(lines: list[str]) -> list[str]:
    """With `::` before indented blocks that come before the first section."""
    first_rule = next((k for k, line in enumerate(lines) if RULE.match(line)), len(lines))
    out: list[str] = []
    for k, line in enumerate(lines):
        begins = line.startswith("    ") and k > 1 and not lines[k - 1].strip() and not lines[k - 2].startswith("    ")
        if begins and k < first_rule:
            out += ["::", ""]
        out.append(line)
    return out


def _escaped(lines: list[str]) -> list[str]:
    out: list[str] = []
    literal = doctest = False
    for line in lines:
        if line.strip() == "::":
            literal = True
        elif literal and line.strip() and not line.startswith(" "):
            literal = False
        doctest = line.lstrip().startswith(">>>") or (doctest and bool(line.strip()))
        out.append(line if literal or doctest or RULE.match(line) else _escaped_line(line))
    return out


def _escaped_line(line: str) -> str:
    pieces = re.split(r"(`[^`]*`)", line)
    for k in range(0, len(pieces), 2):
        pieces[k] = re.sub(r"[|*\\]", r"\\\g<0>", pieces[k])
        pieces[k] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", pieces[k])
    for k in range(1, len(pieces), 2):  # code that is no name
        if not re.fullmatch(r"`[A-Za-z_][\w.]*(\(\))?`", pieces[k]):
            pieces[k] = f"`{pieces[k]}`"
        else:
            pieces[k] = pieces[k].replace("()", "")
    return "".join(pieces)


def _attributes(lines: list[str]) -> list[str]:
    out: list[str] = []
    inside = False
    for k, line in enumerate(lines):
        if line == "Attributes" and k + 1 < len(lines) and RULE.match(lines[k + 1]):
            inside = True
            out += [".. rubric:: Attributes", ""]
            continue
        if inside and RULE.match(line):
            continue
        found = ATTRIBUTE.match(line) if inside else None
        if found:
            names = ", ".join(f"**{name}**" for name in found[1].split(", "))
            out += ["", names, f"    {found[2]}"]
            continue
        inside = inside and (not line or line.startswith("    "))
        out.append(line)
    return out


def resolved(_app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.Element) -> nodes.Element | None:
    """A link to the thing of that name in one of the modules, or the name as code."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    domain = env.domains.python_domain
    for module in MODULES:
        found = domain.objects.get(f"{module}.{target}")
        if found:
            link = nodes.reference("", "", internal=True)
            link["refuri"] = f"{_app.builder.get_relative_uri(node['refdoc'], found.docname)}#{found.node_id}"
            link += contnode
            return link
    return contnode if node["reftype"] == "obj" else None


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", readable, priority=400)  # before napoleon
    app.connect("doctree-read", dashed)
    app.connect("missing-reference", resolved)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
