"""Sphinx: the pages are Markdown (MyST), the reference is made of the docstrings (numpydoc)."""

import functools
import gc
import inspect
import re
from importlib.metadata import version as version_of
from pathlib import Path

from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx
from sphinx import addnodes

from dfprivacy import PrivateFrame
from dfprivacy._plugins.loader import registry

# All pages live until the end: to look for garbage among them is a quarter of the work.
gc.set_threshold(100_000, 50, 50)

# numpydoc would make an environment, and compile its template in it, for each docstring.
_environments = {}
docscrape_sphinx.SandboxedEnvironment = lambda loader: _environments.setdefault(
    type(loader), SandboxedEnvironment(loader=loader)
)

project = "dfprivacy"
author = "The dfprivacy developers"
project_copyright = author
release = version = version_of("dfprivacy")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas without a network
    "sphinx.ext.viewcode",
    "myst_parser",
    "numpydoc",
]
exclude_patterns = ["_build", "example_plugin"]
html_theme = "furo"
html_title = f"dfprivacy {release}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3

default_role = "py:obj"  # a name in single backticks is looked up
add_module_names = False
autodoc_typehints = "none"  # the docstrings say the types, with shapes and units
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

nitpicky = True
suppress_warnings = ["ref.python"]  # several classes have an attribute of one name: the first is linked
nitpick_ignore_regex = [
    # Rooms that are not public: the explanation tells of them, the reference does not.
    ("py:obj", r"dfprivacy\.(accounting|conversions|curator|noise|plugins|schema|testing)(\..*)?"),
    # Parameters, symbols and words of the field in single backticks.
    ("py:obj", r"[a-z_0-9]+"),
    # Base classes from the standard library and from what autodoc sees of type checkers' helpers.
    ("py:class", r"(abc|enum|typing|collections)\..*"),
    ("py:class", r"dfprivacy\.(view|question)\._.*"),
]


def _method(mechanism):
    """A method of views as help() shows it: at run time views find it in the registry of plugins."""

    def method(self): ...

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__name__, method.__doc__ = mechanism.name, mechanism.doc
    method.__module__ = mechanism.function.__module__
    method.__signature__ = mechanism.signature.replace(parameters=[own, *mechanism.signature.parameters.values()])
    return method


for _mechanism in registry().mechanisms.values():
    for _form in (_mechanism, _mechanism.own):
        if _form is not None:
            setattr(PrivateFrame, _form.name, _method(_form))


def _changelog(_app, page, source):
    """Put each version of the repository's changelog on a page of its own, with links as they are there."""
    if page.startswith("changelog/"):
        text = (Path(__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
        versions = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
        (section,) = (each for each in versions if each.startswith(page.removeprefix("changelog/")))
        title, _, body = re.sub(r"^###", "##", section, flags=re.MULTILINE).partition("\n")
        body = re.sub(r"\[([^]]+)\]\((?:SECURITY|CONTRIBUTING|README)\.md\)", r"\1", body)
        source[0] = f"# {title}\n{body.replace('](docs/', '](../')}"


def _navigation(app, _page, _template, context, _doctree):
    """Copy titles alone into the sidebar, which shows no more: Sphinx would copy every section for each page."""
    env, toctree = app.env, context["toctree"]

    def of_titles(**options):
        contents = env.tocs
        env.tocs = _titles(env) if options.get("titles_only") else contents
        try:
            return toctree(**options)
        finally:
            env.tocs = contents

    context["toctree"] = of_titles


@functools.cache
def _titles(env):
    """Leave of every page's contents its title and the pages below it, as ``titles_only`` does later."""
    titles = {page: contents.deepcopy() for page, contents in env.tocs.items()}
    for contents in titles.values():
        for title in contents:
            for sections in title[1:]:
                sections[:] = list(sections.findall(addnodes.toctree))
                if not sections.children:
                    title.remove(sections)
    return titles


def setup(app):
    app.connect("source-read", _changelog)
    app.connect("html-page-context", _navigation, priority=400)  # before the theme's
