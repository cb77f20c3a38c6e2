"""A lower bound, and a certificate that somebody else can check.

A run that stops early says how far it can be from the minimum, one that ends has no gap left. Either comes with a
certificate: `dope.verify` recomputes weights and bounds in NumPy, shares no code with the solver, and finds out if
anything in it is made up.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

import dope

rng = np.random.default_rng(3)
truth = np.kron(rng.random((6, 9)) < 0.4, np.ones((12, 12), dtype=bool))
energy = dope.Energy.grid(0.5 - truth + rng.normal(0, 0.9, truth.shape), lam=0.55, kernel=3)

early = dope.minimize(energy, blocks=24, method=dope.Exact(tolerance=0.01))
exact = dope.minimize(energy, blocks=24)
forged = replace(exact.certificate, flow=2 * exact.certificate.flow)

for name, result, certificate in (
    ("stopped early", early, early.certificate),
    ("to the end", exact, exact.certificate),
    ("forged", exact, forged),
):
    verdict = dope.verify(energy, result.labels, certificate)
    print(f"{name}: valid {verdict.valid}, exact {verdict.exact}: {verdict.reason}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.imshow(exact.labels, cmap="gray", interpolation="nearest")
left.set(title="labels of least energy", xticks=[], yticks=[])
rounds = [step.round for step in exact.trace]
right.plot(rounds, [step.energy for step in exact.trace], "o-", label="energy of the labels")
right.plot(rounds, [step.lower_bound for step in exact.trace], "s-", label="lower bound")
right.set(title="where they meet is the minimum", xlabel="round")
right.legend()
figure.savefig("certificate.png", dpi=120)
