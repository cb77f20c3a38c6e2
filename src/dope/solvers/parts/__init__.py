"""What several solvers are made of: starting labels, rounds, flows of the core, the roof dual's, spins for samplers."""
