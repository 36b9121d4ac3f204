"""Guard: a chapter is recorded in one clean run, and what it writes down can be read out again.

A cell that was never executed is not compared by nbval and passes, so somebody has to look.
"""

import ast


def unclean(cells) -> list[str]:
    """What shows that the cells of a chapter were not recorded in one clean run: reasons."""
    found, cells = [], [cell for cell in cells if cell["cell_type"] == "code"]
    if [cell["execution_count"] for cell in cells] != list(range(1, len(cells) + 1)):
        found.append("the cells were not executed once each, in their order")
    outputs = [output for cell in cells for output in cell["outputs"]]
    if any(output["output_type"] == "error" for output in outputs):
        found.append("an error is recorded")
    if any(output.get("name") == "stderr" for output in outputs):
        found.append("something on stderr is recorded")
    if any("execution" in cell["metadata"] for cell in cells):
        found.append("timestamps are recorded")
    return found


def written_out(source: str, name: str):
    """The literal that a source binds to a name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise ValueError(f"name is {name!r}; accepted is one to which the source binds a literal")
