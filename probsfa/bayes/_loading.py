"""NumPyro, loaded as a whole before any of its parts.

ArviZ 1, imported first, leaves a lazy stand-in for it. A part that is imported through the stand-in loses its
own parts (``numpyro.distributions.distribution``); reading any name of it loads it as usual.
"""

import numpyro

NUMPYRO = numpyro.__version__
