"""Binary pairwise energies, minimized block by block."""
