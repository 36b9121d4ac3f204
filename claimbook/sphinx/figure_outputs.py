"""Of the outputs of a cell with a figure, only images become the figure.

MyST-NB takes a cell's caption and name for each of its outputs. A table below a plot would be a
second figure of the same name, which a strict build refuses.
"""

from myst_nb.sphinx_ import SphinxNbRenderer

render = SphinxNbRenderer._render_nb_cell_code_outputs


def is_image(output):
    return any(mime.startswith("image/") for mime in output.get("data", {}))


def render_outputs(self, token, outputs):
    """Render each output, what is no image without the cell's caption and name."""
    metadata = token.meta["metadata"]
    shown = metadata.get("mystnb", {})
    plain = metadata | {"mystnb": {key: shown[key] for key in shown if key != "figure"}}
    for output in outputs:
        token.meta["metadata"] = metadata if is_image(output) else plain
        render(self, token, [output])
    token.meta["metadata"] = metadata


def setup(app):
    SphinxNbRenderer._render_nb_cell_code_outputs = render_outputs
    return {"version": "1", "parallel_read_safe": True}
