"""Samplers: exact ones for steps on every space and for bounded densities, and chains."""

from .boxes import sample_by_boxes as sample_by_boxes
from .chains import metropolis as metropolis
from .chains import sample_by_chains as sample_by_chains
from .chains import split_rhat as split_rhat
from .radial import ball_steps as ball_steps
from .radial import laplace_steps as laplace_steps
from .radial import laplace_threshold as laplace_threshold
from .radial import radial_law as radial_law
from .radial import sample_laplace as sample_laplace
