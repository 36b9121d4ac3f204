"""Guards of a book: they read its chapters, without running them, and say what is not sound.

`candidates`: no check holds the package under test against itself. `numbers`: what is typed in
prose is shown by a cell. `quoted`: a paper's words are the paper's. `recorded`: a chapter was
recorded in one clean run.
"""
