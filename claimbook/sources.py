"""Modules by their dotted names: where they stand below a root, and what they import there."""

import ast
import functools
import pathlib


def path_of(root, module: str) -> pathlib.Path | None:
    """The file of a module below `root`, of a package its `__init__.py`; None if there is none."""
    place = pathlib.Path(root, *module.split("."))
    for path in place / "__init__.py", place.with_name(f"{place.name}.py"):
        if path.is_file():
            return path
    return None


def text_of(root, module: str) -> str:
    """The source of a module below `root`."""
    return path_of(root, module).read_text(encoding="utf-8")


def package_of(root, module: str) -> str:
    """The package from which the relative imports of a module count: itself, or the one above."""
    path = path_of(root, module)
    return module if path and path.name == "__init__.py" else module.rpartition(".")[0]


def above(module: str) -> set[str]:
    """The packages that an import of a module runs first."""
    parts = module.split(".")
    return {".".join(parts[:i]) for i in range(1, len(parts))}


@functools.cache
def statements(source: str) -> list[tuple[int, str, str | None]]:
    """The imports of a source, wherever they stand.

    Each is (level, module, name), where the name is None in `import module`.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(0, alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.level, node.module or "", alias.name) for alias in node.names]
    return found


def absolute(level: int, module: str, package: str) -> str:
    """The full name of a module that is imported, with so many dots, in a package."""
    base = package.split(".")[:len(package.split(".")) - level + 1] if level else []
    return ".".join([*filter(None, base), *filter(None, [module])])


def taken(root, source: str, package: str = "") -> set[tuple[str, str | None]]:
    """What a source that stands in `package` imports from modules below `root`.

    Pairs of a module and a name in it, which is None for the module itself.
    """
    found = set()
    for level, module, name in statements(source):
        module = absolute(level, module, package)
        if name is None:
            while module and path_of(root, module) is None:
                module = module.rpartition(".")[0]
        elif path_of(root, f"{module}.{name}"):
            module, name = f"{module}.{name}", None
        if module and path_of(root, module):
            found.add((module, None if name == "*" else name))
    return found


def imports(root, source: str, package: str = "") -> set[str]:
    """Modules below `root` that a source imports, wherever the import stands."""
    return {module for module, _ in taken(root, source, package)}


def modules(root, source: str) -> set[str]:
    """Modules below `root` to which the imports of a source lead, over any number of steps."""
    reached, ahead = set(), imports(root, source)
    while ahead:
        module = ahead.pop()
        reached.add(module)
        ahead |= imports(root, text_of(root, module), package_of(root, module)) - reached
    return reached


def home(root, module: str, name: str) -> str:
    """The module in which a name stands that is imported from `module`, or from one it names."""
    if path_of(root, f"{module}.{name}"):
        return f"{module}.{name}"
    if path_of(root, module) is None:
        return module
    package = package_of(root, module)
    for level, source, imported in statements(text_of(root, module)):
        source = absolute(level, source, package)
        if imported == name and source != module and path_of(root, source):
            return home(root, source, name)
    return module
