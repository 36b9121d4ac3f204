"""Guard: no check holds the package under test against itself.

Candidates come from the paper, samples and values from the package, or a fault of a module would
cancel. The guard reads the code of a chapter, without running it, and follows names from the
imports through assignments, functions, loops and comprehensions: each value carries the modules of
the package whose functions computed it. It refuses two things:

- a possible truth (`printed`, `stated`, `corrected`, `measured`) that is computed by the module
  under test, the last one, in the order of the modules, of those that compute the value. Those
  before it have checks of their own. Rivals are free: if the value agrees with a truth that owes
  nothing to the module, the module is right.
- a value for which a function of a module is fed with what that module computed, where its
  functions are inverse to each other by one formula (`round_trips`): a fault cancels on the way
  back.

What a chapter and a module write down by the same formula, each for itself, it cannot see.
"""

import ast
import pathlib
from dataclasses import dataclass

from .. import sources
from ..ledger import VERDICT

TRUTHS = set(VERDICT)
COUNTS = {"len", "shape", "size", "ndim", "dtype"}  # how many there are is no value
NOTHING = frozenset()


@dataclass(frozen=True)
class Rules:
    """What the guard has to know of a package.

    `order` names its modules, each after those that it imports. `free` are modules that compute
    nothing under test, `data` the beginnings of names of functions that make the data of both
    sides.
    """

    root: pathlib.Path
    package: str
    order: tuple[str, ...]
    free: frozenset[str] = NOTHING
    data: tuple[str, ...] = ()
    round_trips: frozenset[str] = NOTHING

    def home(self, module: str, name: str) -> str:
        """Full name of the module in which an imported name stands."""
        return sources.home(self.root, module, name)


class Imported(frozenset):
    """The label of a name that is imported from a module."""


class Function:
    """A function of a chapter, which is followed wherever it is called."""

    def __init__(self, node, scope):
        self.node, self.scope = node, scope


class Claim:
    """What `with claim(id, …) as c` binds."""

    def __init__(self, id):
        self.id = id


class Scope(dict):
    """Names and what they carry, looked up outwards."""

    def __init__(self, outer=None):
        super().__init__()
        self.outer = outer

    def find(self, name):
        if name in self:
            return self[name]
        return self.outer.find(name) if self.outer is not None else NOTHING


class Tracer:
    """Follows the code of one chapter; `checks` are (claim, value's labels, truths' labels)."""

    def __init__(self, source, rules):
        self.rules, self.found, self.running = rules, {}, []
        self.scope = Scope()
        self.run(ast.parse(source).body, self.scope)

    @property
    def checks(self):
        """Each check that stands in the source once, with its number within its claim."""
        numbers, rows = {}, []
        for _, (id, value, truths) in sorted(self.found.items()):
            numbers[id] = numbers.get(id, 0) + 1
            rows.append((id, numbers[id], value, truths))
        return rows

    def run(self, statements, scope):
        """Follow statements; what they return, if they stand in a function."""
        returned = NOTHING
        for statement in statements:
            returned |= self.step(statement, scope)
        return returned

    def step(self, node, scope):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self.bind_imports(node, scope)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            scope[node.name] = Function(node, scope)
        elif isinstance(node, ast.Return):
            return self.labels(node.value, scope)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self.bind(target, node.value, scope)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.bind(node.target, node.value, scope)
        elif isinstance(node, ast.AugAssign):
            self.add(node.target, self.labels(node.value, scope), scope)
        elif isinstance(node, (ast.For, ast.While)):
            for _ in range(2):  # what one turn leaves behind is there at the next
                if isinstance(node, ast.For):
                    self.bind(node.target, node.iter, scope, of_each=True)
                returned = self.run(node.body + node.orelse, scope)
            return returned
        elif isinstance(node, ast.With):
            for item in node.items:
                if item.optional_vars is not None:
                    self.bind(item.optional_vars, item.context_expr, scope)
            return self.run(node.body, scope)
        elif isinstance(node, ast.If):
            return self.run(node.body + node.orelse, scope)
        elif isinstance(node, ast.Try):
            handlers = [statement for handler in node.handlers for statement in handler.body]
            return self.run(node.body + handlers + node.orelse + node.finalbody, scope)
        elif isinstance(node, ast.Expr):
            found = self.labels(node.value, scope)
            if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
                self.add(node.value.func.value, found, scope)  # such as found.append(x)
            if isinstance(node.value, (ast.Yield, ast.YieldFrom)):
                return found
        return NOTHING

    def bind_imports(self, node, scope):
        rules = self.rules
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                module, name = rules.home(node.module or "", alias.name), alias.asname or alias.name
            else:
                module, name = alias.name, alias.asname or alias.name.partition(".")[0]
            if module != rules.package and not module.startswith(f"{rules.package}."):
                continue
            module = module.removeprefix(f"{rules.package}.")
            data = alias.name.startswith(rules.data) or module in rules.free
            scope[name] = NOTHING if data else Imported({module})

    def bind(self, target, value, scope, of_each=False):
        """Bind names to what an expression carries, one by one where it is written out so."""
        written_out = isinstance(value, (ast.Tuple, ast.List)) and not of_each
        if isinstance(target, ast.Name):
            scope[target.id] = self.labels(value, scope) if of_each else self.value(value, scope)
        elif isinstance(target, (ast.Tuple, ast.List)):
            same = written_out and len(target.elts) == len(value.elts)
            for i, part in enumerate(target.elts):
                self.bind(part, value.elts[i] if same else value, scope, of_each or not same)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value, scope, of_each)
        else:  # an entry or an attribute of something
            self.add(target, self.labels(value, scope), scope)

    def add(self, target, found, scope):
        """Add labels to the name behind an entry or an attribute."""
        while isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred)):
            target = target.value
        if isinstance(target, ast.Name) and not isinstance(scope.find(target.id), Claim):
            scope[target.id] = flat(self, scope.find(target.id)) | found

    def labels(self, node, scope):
        return NOTHING if node is None else flat(self, self.value(node, scope))

    def value(self, node, scope):
        """What an expression carries: labels, or a function that can be followed."""
        if isinstance(node, ast.Name):
            return scope.find(node.id)
        if isinstance(node, ast.Lambda):
            return Function(node, scope)
        if isinstance(node, ast.Call):
            return self.call(node, scope)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            scope = Scope(scope)
            found = NOTHING
            for generator in node.generators:
                self.bind(generator.target, generator.iter, scope, of_each=True)
            parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            return found.union(*(self.labels(part, scope) for part in parts))
        if isinstance(node, ast.Attribute) and node.attr in COUNTS:
            return NOTHING
        if isinstance(node, ast.NamedExpr):
            self.bind(node.target, node.value, scope)
        children = (n for n in ast.iter_child_nodes(node) if isinstance(n, (ast.expr, ast.keyword)))
        return NOTHING.union(*(self.labels(child, scope) for child in children))

    def call(self, node, scope):
        function = self.value(node.func, scope)
        if isinstance(node.func, ast.Name) and node.func.id in COUNTS:
            return NOTHING
        if isinstance(node.func, ast.Name) and node.func.id == "claim":
            id = node.args[0]
            return Claim(id.value if isinstance(id, ast.Constant) else ast.unparse(id))
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value, scope)
            if isinstance(owner, Claim):
                return self.check(owner, node, scope)
        arguments = [self.value(argument, scope) for argument in node.args]
        named = {keyword.arg: self.value(keyword.value, scope) for keyword in node.keywords}
        if isinstance(function, Function):
            return self.follow(function, arguments, named)
        given = NOTHING.union(*(flat(self, a) for a in [*arguments, *named.values()]))
        found = flat(self, function) | given
        if isinstance(function, Imported) and function & given & self.rules.round_trips:
            found |= {f"{module} fed back" for module in function}
        return found

    def follow(self, function, arguments=(), named=None):
        """What a function of the chapter returns for these arguments."""
        node, named = function.node, named or {}
        everything = NOTHING.union(*(flat(self, a) for a in [*arguments, *named.values()]))
        if node in self.running:
            return everything
        self.running.append(node)
        scope = Scope(function.scope)
        if not isinstance(node, ast.ClassDef):
            self.bind_parameters(node.args, arguments, named, everything, scope)
        if isinstance(node, ast.Lambda):
            found = self.value(node.body, scope)
        elif isinstance(node, ast.FunctionDef):
            found = self.run(node.body, scope)
        else:
            used = (name for name in ast.walk(node) if isinstance(name, ast.Name))
            found = everything.union(*(self.labels(name, scope) for name in used))
        self.running.pop()
        return found

    def bind_parameters(self, parameters, arguments, named, everything, scope):
        """Bind parameters to their arguments; *args and **kwargs to what all of these carry."""
        plain = [*parameters.posonlyargs, *parameters.args]
        for parameter, default in zip(plain[::-1], parameters.defaults[::-1], strict=False):
            scope[parameter.arg] = self.value(default, scope.outer)
        keywords = zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True)
        for parameter, default in keywords:
            scope[parameter.arg] = NOTHING if default is None else self.value(default, scope.outer)
        for i, parameter in enumerate(plain):
            if i < len(arguments):
                scope[parameter.arg] = arguments[i]
            scope.setdefault(parameter.arg, NOTHING)
        scope.update({name: value for name, value in named.items() if name is not None})
        for parameter in (parameters.vararg, parameters.kwarg):
            if parameter is not None:
                scope[parameter.arg] = everything

    def check(self, claim, node, scope):
        """Note the labels of a check; on a claim's other attributes there is nothing to note."""
        truths = [k.value for k in node.keywords if k.arg in TRUTHS or k.arg is None]
        if truths:
            found = NOTHING.union(*(self.labels(truth, scope) for truth in truths))
            value = self.labels(node.args[0], scope)
            place = node.lineno, node.col_offset
            _, seen_value, seen_truths = self.found.get(place, (None, NOTHING, NOTHING))
            self.found[place] = claim.id, value | seen_value, found | seen_truths
        return NOTHING


def flat(tracer, value):
    """Labels of whatever a name is bound to; of a function those that a call of it would carry."""
    if isinstance(value, Function):
        value = tracer.follow(value)
        return flat(tracer, value)
    return NOTHING if isinstance(value, Claim) else frozenset(value)


def why_refused(value, truths, rules: Rules) -> str | None:
    """Why a check with these labels is refused; None if it is not."""
    modules = [module for module in rules.order if module in value]
    if modules and modules[-1] in truths:
        return f"{modules[-1]} computes the value and a possible truth"
    others = sorted(value - set(rules.order))
    return f"the value has {', '.join(others)}" if others else None


def refused(source: str, rules: Rules) -> dict[tuple[str, int], str]:
    """Checks that hold the package against itself: a dict from (claim, number) to the reason."""
    checks = Tracer(source, rules).checks
    rows = ((id, number, why_refused(*labels, rules)) for id, number, *labels in checks)
    return {(id, number): reason for id, number, reason in rows if reason}
