"""Passes over segments in a library of C, and the route through the engine that takes them.

``segments.c`` does what :mod:`probsfa.statespace.engine.information_form` does, ``build.py`` compiles it when
the package is installed, ``library.py`` finds it, and ``route.py`` takes panels through it.
"""
