"""Sphinx extension: the box of a claim, and links to it.

A chapter states a claim once, and what takes its place where it does not stand, in one box:

    ::::{claim} TG-16 Sensitivity of the log-Euclidean Fréchet mean
    :kind: theorem

    What is printed.

    :::{corrected} The finding, in a sentence
    What is right.
    :::
    ::::

For a claim that fails the inner directive is `measured`. The box is one of sphinx-proof, whose
counter and references go on working. Its head says what the ledger knows: paper, place, verdict,
harm; its last line links the claims that it uses and those that use it. `` {claim}`TG-16` `` leads
to the box, `` {claim}`TG-16-corrected` `` to what is right.
"""

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.addnodes import pending_xref
from sphinx.roles import XRefRole
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode
from sphinx_proof.directive import ElementDirective
from sphinx_proof.proof_type import PROOF_TYPES

from ..ledger import UNTESTED, is_own, ledger, paper_of, read_claims
from . import folder_of

ROLES = {"corrected": "Corrected", "measured": "Measured"}  # of what takes a statement's place
TWO = "As printed, in two readings"
SOURCE = {"not in words": "As claimed of the paper", "two readings": TWO}
DOUBT = {"corrected": "does not hold", "fails": "does not hold", UNTESTED: "not tested"}


def heads(book):
    """What each box says of its claim: a dict from id to a dict of words and of lists of ids."""
    papers, _ = read_claims(book)
    rows = ledger(book)
    return {
        row["id"]: head(row, papers[paper_of(row["id"])]) | {
            "uses": row["uses"],
            "users": [other["id"] for other in rows if row["id"] in other["uses"]]
        }
        for row in rows
    }


def head(row, paper):
    """Of one claim: its place, verdict and harm, and the label of its statement, if it has one."""
    if is_own(paper):
        place, source = "A claim of this book", ""
    else:
        place = f"{paper.get('short', paper['title'])}, {row['where']}"
        source = SOURCE.get(row["reading"], "As printed")
    if doubt := DOUBT.get(row["verdict"], ""):
        where = " in one of them" if source == TWO and row["verdict"] != UNTESTED else ""
        source = f"{source or 'As stated'} – {doubt}{where}"
    return {"place": place, "verdict": row["verdict"], "harm": row["harm"], "label": source}


def kind(argument):
    """The kind of a box, which is one of sphinx-proof's."""
    if argument not in PROOF_TYPES:
        raise ValueError(f"kind is {argument}; accepted are {', '.join(PROOF_TYPES)}")
    return argument


def head_of(id, head):
    """The line of a box that says whose claim it is, and what came of it."""
    line = nodes.paragraph(classes=["claim-head"])
    verdict = nodes.inline("", head["verdict"], classes=["verdict", f"verdict-{head['verdict']}"])
    link = nodes.raw("", f'<a class="id" href="#ledger-{id}">{id}</a>', format="html")
    parts = [nodes.inline("", head["place"]), link, verdict]
    if head["harm"] and (head["harm"], head["verdict"]) != ("none", "holds"):
        parts.append(nodes.inline("", f"harm: {head['harm']}", classes=["harm"]))
    for part in parts:
        line += [nodes.Text(" · "), part] if line.children else part
    return line


def links_of(head, page):
    """The line of a box that links the claims that it uses and those that use it, or nothing."""
    line = nodes.paragraph(classes=["claim-links"])
    for word, ids in ("Uses", head["uses"]), ("Used by", head["users"]):
        for i, id in enumerate(dict.fromkeys(ids)):
            before = ", " if i else f"{' · ' if line.children else ''}{word} "
            link = pending_xref("", nodes.inline("", id), reftype="claim", refdomain="",
                                reftarget=id, refexplicit=False, refwarn=True, refdoc=page)
            line += [nodes.Text(before), link]
    return [line] if line.children else []


def label(word, *phrase):
    """The heading of a part of a box."""
    return nodes.paragraph("", "", nodes.inline("", word), *phrase, classes=["claim-label"])


class Claim(ElementDirective):
    """The box of a claim."""

    required_arguments, optional_arguments = 2, 0
    option_spec = {"kind": kind, "class": directives.class_option}

    def run(self):
        id, title = self.arguments
        head = self.env.claim_heads.get(id)
        if head is None:
            raise self.error(f"claim is {id}; accepted are those listed in claims.toml")
        if "kind" not in self.options:
            raise self.error(f"kind of {id} is missing; accepted are {', '.join(PROOF_TYPES)}")
        self.name, self.arguments = f"prf:{self.options['kind']}", [title]
        self.options["label"] = id
        self.env.temp_data["claim"] = id
        (box,) = super().run()
        del self.env.temp_data["claim"]
        self.env.proof_list[id] |= {"says": id, "phrase": title}
        return [self.arranged(box, id, head)]

    def arranged(self, box, id, head):
        """The box with its head, and what takes the printed statement's place behind it."""
        _, printed = box.children
        instead = [part for part in printed if "claim-instead" in part.get("classes", ())]
        if instead and printed.children[-len(instead):] != instead:
            raise self.error(f"text of {id} is behind what takes its place; accepted is none")
        for part in instead:
            printed.remove(part)
        printed["classes"].append("claim-printed")
        if head["label"]:
            printed.insert(0, label(head["label"]))
        box["classes"] += ["claim-box", f"claim-box-{head['verdict']}"]
        box.insert(0, head_of(id, head))
        box += instead
        box += links_of(head, self.env.docname)
        return box


class Instead(SphinxDirective):
    """What takes the place of a printed statement, inside of its box."""

    has_content = True
    required_arguments, optional_arguments = 1, 0
    final_argument_whitespace = True

    def run(self):
        id = self.env.temp_data.get("claim")
        if id is None:
            raise self.error(f"{self.name} is outside of a box; accepted is the box of a claim")
        anchor, finding = f"{id}-{self.name}", self.arguments[0]
        part = nodes.container(classes=["claim-instead"], ids=[anchor])
        phrase, messages = self.state.inline_text(finding, self.lineno)
        part += label(ROLES[self.name], nodes.Text(" – "), *phrase)
        self.state.nested_parse(self.content, self.content_offset, part)
        self.env.proof_list[anchor] = {
            "docname": self.env.docname,
            "countertype": "theorem",
            "realtype": "theorem",
            "ids": [anchor],
            "label": anchor,
            "prio": 0,
            "nonumber": True,
            "says": f"{id} as {self.name}",
            "phrase": finding
        }
        return [part, *messages]


def resolve(app, env, node, content):
    """The link to a box, or to what takes a statement's place: its id, with the title on hover."""
    target = node["reftarget"]
    found = getattr(env, "proof_list", {}).get(target, {})
    if node["reftype"] != "claim" or "says" not in found:
        return None  # Sphinx warns of it
    if not node["refexplicit"]:
        content = nodes.inline("", found["says"], classes=["claim-id"])
    page = found["docname"]
    return make_refnode(app.builder, node["refdoc"], page, target, content, found["phrase"])


def outdated(app, env, *changes):
    """The pages with a box whose head is another one than at the last build."""
    old, env.claim_heads = getattr(env, "claim_heads", {}), heads(folder_of(app))
    listed = getattr(env, "proof_list", {})
    return {
        listed[id]["docname"]
        for id in old.keys() & listed.keys() if old[id] != env.claim_heads.get(id)
    }


def setup(app):
    app.setup_extension("sphinx_proof")
    app.add_directive("claim", Claim)
    for role in ROLES:
        app.add_directive(role, Instead)
    app.add_role("claim", XRefRole(innernodeclass=nodes.inline, warn_dangling=True))
    app.connect("missing-reference", resolve)
    app.connect("env-get-outdated", outdated)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
