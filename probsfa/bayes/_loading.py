"""Import of NumPyro as a whole before any of its submodules.

ArviZ 1, if imported first, replaces NumPyro by a lazy module. Submodules that are imported through the lazy
module lack their own submodules (``numpyro.distributions.distribution``). Access to any of its names loads
NumPyro as usual.
"""

import numpyro

NUMPYRO_VERSION = numpyro.__version__
