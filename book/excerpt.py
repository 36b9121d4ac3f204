"""Cut a chapter down to one claim: the statements on which its test depends, and no others.

A statement is kept if it tests the claim, or if it binds a name, or changes what a name stands for,
that a kept one further on reads; what a function reads, it reads wherever it may be called. What is
set on a module holds everywhere. Which names these are is taken from the code. So a statement goes
unseen that changes an object otherwise than by setting items or attributes, or by a method that it
calls for nothing else: the draws of a generator that cells share are others in an excerpt.
"""

import ast
import copy
import symtable

import nbformat

from spdlib.cli import CLAIM

BLOCKS = ast.With, ast.For, ast.While, ast.If
AT_ONCE = "listcomp", "setcomp", "dictcomp", "genexpr"  # scopes that are no functions


def excerpt(chapter, claim):
    """The chapter (a path or a node) with only what leads to the tests of a claim: a new node."""
    read = not isinstance(chapter, nbformat.NotebookNode)
    notebook = nbformat.read(chapter, as_version=4) if read else copy.deepcopy(chapter)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    parts = [(cell, part) for cell in notebook.cells for part in ast.parse(cell.source).body]
    tests = {place for place, (_, part) in enumerate(parts)
             if claim in [match["id"] for match in CLAIM.finditer(ast.unparse(part))]}
    if not tests:
        raise ValueError(f"claim is {claim!r}; accepted are the claims that the chapter tests")
    kept = [parts[place] for place in needed([part for _, part in parts[: max(tests) + 1]], tests)]
    for cell in notebook.cells:
        cell.source = "\n".join(ast.unparse(part) for home, part in kept if home is cell)
    notebook.cells = [cell for cell in notebook.cells if cell.source]
    return notebook


def needed(statements, tests):
    """The places of the statements on which those at the places `tests` depend: a list."""
    imports = [each for each in statements if isinstance(each, (ast.Import, ast.ImportFrom))]
    modules = set().union(*(names(each)[1] for each in imports))
    flows = [flow(statement, modules) for statement in statements]
    called, before = {}, None  # names that functions read: where the first of these stands
    while called != before:
        before, wanted, kept = dict(called), set(), []
        for place in reversed(range(len(statements))):
            reads, binds, changes, later = flows[place]
            missing = wanted | {name for name, first in called.items() if first < place}
            if place in tests or changes & modules or missing & (binds | changes):
                kept.insert(0, place)
                anew = set() if isinstance(statements[place], BLOCKS[1:]) else binds
                wanted = wanted - anew | reads | later
                called |= {name: min(place, called.get(name, place)) for name in later}
    return kept


def flow(statement, modules=frozenset()):
    """What a statement does with names: four sets.

    These are the names that it reads from before it, that it binds, whose objects it changes, and
    that functions in it read, perhaps later. `modules` are names that stand for modules.
    """
    if not isinstance(statement, BLOCKS):
        reads, binds, later = names(statement)
        return reads, binds, changed(statement, modules) - binds, later
    head = copy.copy(statement)
    head.body, blocks = [ast.Pass()], [statement.body]
    if getattr(statement, "orelse", None):
        head.orelse, blocks = [], [statement.body, statement.orelse]
    reads, first, later = names(head)
    binds, changes = set(first), set()
    for block in blocks:
        here = set(first)
        for part in block:
            part_reads, part_binds, part_changes, part_later = flow(part, modules)
            reads |= part_reads - here
            changes |= part_changes - here
            later |= part_later
            here |= part_binds
        binds |= here
    return reads, binds, changes, later - binds


def names(statement):
    """The names of the notebook that a statement reads, binds, and reads in functions: sets."""
    top = symtable.symtable(ast.unparse(statement), "a statement", "exec")
    found, scopes = (set(), set()), [(top, False)]
    while scopes:
        scope, later = scopes.pop()
        found[later].update(symbol.get_name() for symbol in scope.get_symbols()
                            if symbol.is_referenced() and (scope is top or symbol.is_global()))
        scopes += [(each, later or each.get_type() == "function" and each.get_name() not in AT_ONCE)
                   for each in scope.get_children()]
    binds = {symbol.get_name() for symbol in top.get_symbols()
             if symbol.is_assigned() or symbol.is_imported()}
    reads = found[0] | (binds if isinstance(statement, ast.AugAssign) else set())
    return reads, binds, found[1]


def changed(statement, modules):
    """The names whose items or attributes a statement sets, or of which it calls a method."""
    found = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            place, others = node.value.func, modules  # whose functions are no methods
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
