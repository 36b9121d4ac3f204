"""Sphinx hook: a chapter's number is that of its file, so no later one renumbers a theorem."""

import re

from docutils import nodes


def renumber(app, env):
    """Put the number of the file first in every number of its chapter."""
    for page, sections in env.toc_secnumbers.items():
        match = re.search(r"(?:^|/)(\d+)_", page)
        if not match:
            continue
        chapter = int(match[1])
        env.toc_secnumbers[page] = {
            anchor: (chapter, *number[1:])
            for anchor, number in sections.items()
        }
        env.toc_fignumbers[page] = {
            kind: {
                id: (chapter, *number[1:])
                for id, number in numbers.items()
            }
            for kind, numbers in env.toc_fignumbers.get(page, {}).items()
        }
        for node in [env.titles[page], *env.tocs[page].findall(nodes.reference)]:
            node["secnumber"] = [chapter, *node["secnumber"][1:]]
    return []  # no other page to write


def setup(app):
    app.connect("env-get-updated", renumber, priority=900)  # after Sphinx has numbered
    return {"parallel_read_safe": True, "parallel_write_safe": True}
