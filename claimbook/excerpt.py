"""Cut a chapter down to some claims: the statements on which their tests depend, and no others.

A statement is kept if it tests one of them, or if it binds a name, or changes what a name stands
for, that a kept one further on reads; what a function reads, it reads wherever it may be called.
What is set on an import holds everywhere.

All of this is read off the code, so not all is seen. A change is seen where items or attributes are
set, and where a statement is the call of a method, or of a function of the chapter in which a
change is seen: not where an object has another name, as in a loop, is an argument, or is called in
a part of an expression, and not behind `global`, `import *` or a function of an import. A generator
that cells share has drawn less than in the whole chapter.
"""

import ast
import copy
import functools
import symtable
from typing import NamedTuple

from .ledger import CLAIM

IMPORTS = ast.Import, ast.ImportFrom
SURE = ast.Assign, ast.AugAssign, ast.ImportFrom, ast.FunctionDef, ast.ClassDef  # to bind
BLOCKS = ast.With, ast.For, ast.While, ast.If


class Flow(NamedTuple):
    """What a statement does with names: sets of them."""

    reads: set  # bound before it
    binds: set
    changes: set  # whose objects it changes
    later: set  # read by functions, when they are called


def excerpt(chapter, *claims: str):
    """The chapter (a path or a node) with only what leads to tests of the claims: a new node."""
    import nbformat

    read = not isinstance(chapter, nbformat.NotebookNode)
    notebook = nbformat.read(chapter, as_version=4) if read else copy.deepcopy(chapter)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    parts, flows, imported, tested = _read(tuple(cell.source for cell in notebook.cells))
    if unknown := set(claims) - set(tested):
        raise ValueError(f"claim is {unknown.pop()!r}; accepted are the claims that the chapter "
                         "tests")
    tests = set().union(*(tested[claim] for claim in claims))
    kept = [parts[place] for place in needed(parts, flows, imported, tests)]
    for number, cell in enumerate(notebook.cells):
        cell.source = "\n".join(ast.unparse(part) for home, part in kept if home == number)
    notebook.cells = [cell for cell in notebook.cells if cell.source]
    return notebook


@functools.lru_cache(64)
def _read(sources):
    """A chapter's statements, with the numbers of their cells; their Flows; its imports; its tests.

    The last are a dict from claims to sets of the places of statements.
    """
    parts = [(number, part) for number, source in enumerate(sources)
             for part in ast.parse(source).body]
    imported = {name for _, part in parts if isinstance(part, IMPORTS) for name in names(part)[1]}
    flows, effects, tested = [], {}, {}
    for place, (_, part) in enumerate(parts):
        flows.append(flow(part, imported, effects))
        if isinstance(part, ast.FunctionDef):
            effects[part.name] = flows[-1].changes
        for test in CLAIM.finditer(ast.unparse(part)):
            tested.setdefault(test["id"], set()).add(place)
    return parts, flows, imported, tested


def needed(parts, flows, imported, tests):
    """The places of the statements on which those at the places `tests` depend: a list."""
    readers, before = {}, None  # of a name that functions read: the place of the first of these
    while readers != before:
        before, wanted, kept = dict(readers), set(), []
        for place in reversed(range(max(tests) + 1)):
            reads, binds, changes, later = flows[place]
            missing = wanted | {name for name, first in readers.items() if first < place}
            if place in tests or changes & imported or missing & (binds | changes):
                kept.append(place)
                wanted = wanted - surely(parts[place][1], binds) | reads | later
                readers |= {name: min(place, readers.get(name, place)) for name in later}
    return kept[::-1]


def flow(statement, imported, effects):
    """The Flow of a statement.

    `imported` are names of imports, whose functions are no methods; `effects` has for functions of
    the chapter the names whose objects they change.
    """
    if not isinstance(statement, BLOCKS):
        reads, binds, later = names(statement)
        return Flow(reads, binds, changed(statement, imported, effects), later)
    head = copy.copy(statement)
    head.body, blocks = [ast.Pass()], [statement.body]
    if getattr(statement, "orelse", None):
        head.orelse, blocks = [], [statement.body, statement.orelse]
    reads, first, later = names(head)
    whole = Flow(reads, set(first), changed(head, imported, effects), later)
    for block in blocks:
        here = set(first) if block is statement.body else set()  # what is surely bound
        for part in block:
            of_part = flow(part, imported, effects)
            whole.reads.update(of_part.reads - here)
            whole.binds.update(of_part.binds)
            whole.changes.update(of_part.changes - here)
            whole.later.update(of_part.later)
            here |= surely(part, of_part.binds)
    return whole


def surely(statement, binds):
    """Those of the names that a statement binds which it binds whatever happens."""
    return binds - targets(statement) if isinstance(statement, SURE) else set()


def targets(node):
    """The names that := binds in a part of a statement, outside of functions and classes."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        return set()
    own = {node.target.id} if isinstance(node, ast.NamedExpr) else set()
    return own.union(*map(targets, ast.iter_child_nodes(node)))


class Uncomprehended(ast.NodeTransformer):
    """Comprehensions become generators, which have a scope of their own in every Python."""

    def visit_ListComp(self, node):
        return ast.GeneratorExp(self.visit(node.elt), list(map(self.visit, node.generators)))

    visit_SetComp = visit_ListComp

    def visit_DictComp(self, node):
        pair = ast.Tuple([node.key, node.value], ast.Load())
        return self.visit_ListComp(ast.ListComp(pair, node.generators))


def names(statement):
    """The names of the notebook that a statement reads, binds, and reads in functions: sets."""
    text = ast.unparse(Uncomprehended().visit(copy.deepcopy(statement)))
    top = symtable.symtable(text, "a statement", "exec")
    at_once, later, scopes = set(), set(), [(top, False)]
    while scopes:
        scope, waits = scopes.pop()
        own = scope is top or scope.get_type() == "class"
        (later if waits else at_once).update(
            symbol.get_name() for symbol in scope.get_symbols()
            if symbol.is_referenced() and (own or symbol.is_global()))
        scopes += [(each, waits or each.get_type() == "function" and each.get_name() != "genexpr")
                   for each in scope.get_children()]
    binds = {
        symbol.get_name()
        for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }
    binds |= targets(statement)
    return at_once | (binds if isinstance(statement, ast.AugAssign) else set()), binds, later


def changed(statement, imported, effects):
    """The names of which a statement sets items or attributes, calls a method, or the like."""
    found = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            place, others = node.value.func, imported
            found |= effects.get(getattr(place, "id", None), set())
        elif isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
            place, others = node, ()
        else:
            continue
        root = place
        while isinstance(root, (ast.Attribute, ast.Subscript, ast.Call)):
            root = root.func if isinstance(root, ast.Call) else root.value
        if isinstance(root, ast.Name) and root is not place and root.id not in others:
            found.add(root.id)
    return found
