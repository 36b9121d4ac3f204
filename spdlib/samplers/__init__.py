"""Samplers: exact ones for steps on every space and for bounded densities, and chains."""

from .boxes import sample_by_boxes as sample_by_boxes
from .chains import (metropolis as metropolis, sample_by_chains as sample_by_chains,
                     split_rhat as split_rhat)
from .radial import (ball_steps as ball_steps, laplace_steps as laplace_steps,
                     laplace_threshold as laplace_threshold, radial_law as radial_law,
                     sample_laplace as sample_laplace)
