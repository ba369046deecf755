"""Joins the documents outside docs/ to the site, and points links to where they lead there."""

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
SOURCES = "https://github.com/gorun/gorun/blob/main/"
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "reporting.md",
}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")


def on_files(files, config):
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown, page, config, files):
    source = next((name for name, to in PAGES.items() if to == page.file.src_uri), "docs/" + page.file.src_uri)
    return LINK.sub(lambda link: target((ROOT / source).parent / link[1]), markdown)


def target(linked):
    """The address, in pages of the site, of a file or folder that a document links to."""
    path = linked.resolve().relative_to(ROOT)
    if str(path) in PAGES:
        return PAGES[str(path)]
    if path.parent == Path("docs"):
        return path.name
    return SOURCES + str(path)
