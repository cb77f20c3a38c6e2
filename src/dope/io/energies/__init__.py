"""Energies in files: a module per format, and one table of them all."""
