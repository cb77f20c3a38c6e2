"""How the pages become a site: `make docs`. Nothing is fetched from a network, neither here nor by a reader."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import dope

project = "dope"
author = "The dope authors"
copyright = author  # noqa: A001 (Sphinx's name for it)
version = release = dope.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "extensions.commands",
    "extensions.docstrings",
    "extensions.gallery",
    "extensions.links",
]
exclude_patterns = ["images", "static"]
nitpicky = True
smartquotes = False  # --memory is an option and no dash

myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline", "colon_fence"]

# Signatures show names and defaults; what they mean, and of which type they are, is said below them.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
default_role = "py:obj"
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"dope {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5cad", "color-brand-content": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#6db3ff", "color-brand-content": "#6db3ff"},
}
pygments_style = "friendly"
pygments_dark_style = "native"
