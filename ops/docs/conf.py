"""Sphinx's settings.

Chosen: Sphinx with MyST. It is kept (a release this year, as each year since 2008), reads Markdown and docstrings
itself, and with ``-W`` a broken link or anchor is an error. Rejected: MkDocs 1.x, without a release since 2024, whose theme
Material is in maintenance; Zensical, at 0.1, which reads no docstrings.
"""

project = "Windward"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Windward"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]
myst_heading_anchors = 4
exclude_patterns = ["examples/**"]
suppress_warnings = ["toc.not_included"]  # tables of results are reached from their page
pygments_dark_style = "monokai"
