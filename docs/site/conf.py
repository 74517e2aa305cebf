"""Settings of the docs site, which `tools/docs_site.py` builds."""

import os

# Imported here, or autodoc would read the stub file beside it, which is not a program.
import lasthop._native  # noqa: F401

project = "lasthop"
author = "the lasthop authors"
copyright = "the lasthop authors"
version = release = os.environ.get("LASTHOP_VERSION", "")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
# Titles are anchors, as on the code host.
myst_heading_anchors = 4
default_role = "code"
# Options in texts keep their two dashes.
smartquotes = False
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_class_signature = "separated"
# The type `bytes` is also the name of an attribute of two classes.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = "lasthop"
html_favicon = "static/favicon.svg"
html_static_path = ["static", "../../python/lasthop/pages/assets/sort.js"]
html_css_files = ["site.css"]
html_js_files = ["offline.js", ("sort.js", {"defer": "defer"})]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
