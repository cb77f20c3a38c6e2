"""What several solvers are made of: starting labels, rounds, doubled energies, spins for samplers."""
