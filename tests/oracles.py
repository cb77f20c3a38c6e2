"""Slow, plain versions of what dope computes, sharing no code with it: brute force, dense matrices, other solvers."""

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow


def site_pairs(shape, offsets):
    """Every pair (p, q, m) of a grid by plain loops; p and q are coordinates."""
    for p in np.ndindex(*shape):
        for m, offset in enumerate(np.asarray(offsets).tolist()):
            q = tuple(a + b for a, b in zip(p, offset, strict=True))
            if all(0 <= x < n for x, n in zip(q, shape, strict=True)):
                yield p, q, m


def grid_weight_matrix(shape, offsets, lam, *, features=None, beta=0.0, spacing=None, weights=None):
    """The dense symmetric matrix lam W of a grid, straight from the definition."""
    number = int(np.prod(shape))
    flat = {p: i for i, p in enumerate(np.ndindex(*shape))}
    size = np.ones(len(shape)) if spacing is None else np.asarray(spacing, float)
    W = np.zeros((number, number))
    for p, q, m in site_pairs(shape, offsets):
        w = 1.0
        if features is not None:
            x, z = np.atleast_1d(features[p]).astype(float), np.atleast_1d(features[q]).astype(float)
            distance = np.linalg.norm((np.array(q) - np.array(p)) * size)
            w = np.exp(-beta * ((x - z) ** 2).sum()) / distance
        if weights is not None:
            w = weights[m] if np.ndim(weights[m]) == 0 else weights[m][p]
        W[flat[p], flat[q]] += lam * w
        W[flat[q], flat[p]] += lam * w
    return W


def edge_weight_matrix(energy):
    """The dense symmetric weight matrix of an energy from its own edge list."""
    first, second, weights = energy.pairs.edges()
    W = np.zeros((energy.unary.size,) * 2)
    np.add.at(W, (first, second), weights)
    np.add.at(W, (second, first), weights)
    return W


def dense_energy(u, W, y):
    """u'y + y'(D - W)y."""
    y = np.asarray(y, float).ravel()
    L = np.diag(W.sum(axis=1)) - W
    return float(u.ravel() @ y + y @ L @ y)


@cache
def all_labels(n):
    """Every labelling of n sites, one per row."""
    labels = np.array(list(product([0.0, 1.0], repeat=n)))
    labels.flags.writeable = False
    return labels


def brute_force(u, W):
    """The minimum over all labels, with the smallest and the largest minimiser."""
    labels = all_labels(u.size)
    L = np.diag(W.sum(axis=1)) - W
    energies = labels @ u.ravel() + ((labels @ L) * labels).sum(axis=1)
    best = energies.min()
    minimisers = labels[energies <= best + 1e-9 * (1 + np.abs(energies).max())].astype(bool)
    return float(best), minimisers.all(axis=0), minimisers.any(axis=0)


def scipy_minimum(u, W):
    """The minimum by scipy's maximum flow; integer costs."""
    n = u.size
    capacity = np.zeros((n + 2, n + 2), dtype=np.int32)
    capacity[:n, :n] = W
    capacity[n, :n] = np.maximum(-u.ravel(), 0)
    capacity[:n, n + 1] = np.maximum(u.ravel(), 0)
    return float(np.minimum(u, 0).sum() + maximum_flow(csr_array(capacity), n, n + 1).flow_value)


@dataclass
class DenseBlocks:
    """The paper's matrices for one partition, lam inside W."""

    u: np.ndarray
    W: np.ndarray
    members: list

    def __post_init__(self):
        n = self.u.size
        self.S = [np.eye(n)[m] for m in self.members]
        self.Q = np.diag(sum(S.T @ S for S in self.S).diagonal())
        Qi = np.linalg.inv(self.Q)
        D = np.diag(self.W.sum(axis=1))
        L = D - self.W
        self.u_hat = [S @ Qi @ self.u.ravel() for S in self.S]
        self.W_hat = [S @ Qi @ self.W @ Qi @ S.T for S in self.S]
        self.D_hat = [np.diag(W.sum(axis=1)) for W in self.W_hat]
        self.L_hat = [D_k - W_k for D_k, W_k in zip(self.D_hat, self.W_hat, strict=True)]
        self.C = [S @ Qi @ L @ (np.eye(n) - Qi @ S.T @ S) for S in self.S]
        self.R = [S @ Qi @ D @ Qi @ S.T - D_k for S, D_k in zip(self.S, self.D_hat, strict=True)]
        self.A = [C + R @ S for C, R, S in zip(self.C, self.R, self.S, strict=True)]


def paper_loop(blocks, minimum, *, mu0, mu_fact, rounds):
    """The paper's loop, line by line, on dense matrices; `minimum(unary, W)` solves a block. Yields each round."""
    n = blocks.u.size
    y = np.full(n, 0.5)
    a = [np.zeros(len(m)) for m in blocks.members]
    mu = mu0
    Qi = np.linalg.inv(blocks.Q)
    for _ in range(rounds):
        block_unaries = [blocks.u_hat[k] + blocks.A[k] @ y + mu * (a[k] - blocks.S[k] @ y + 0.5) for k in range(len(a))]
        y_hat = [minimum(unary, W) for unary, W in zip(block_unaries, blocks.W_hat, strict=True)]
        y = Qi @ sum(blocks.S[k].T @ (y_hat[k] + a[k]) - blocks.A[k].T @ y_hat[k] / mu for k in range(len(a)))
        old = [one.copy() for one in a]
        a = [a[k] + y_hat[k] - blocks.S[k] @ y for k in range(len(a))]
        apart = [y_hat[k] - blocks.S[k] @ y for k in range(len(a))]
        yield {
            "mu": mu,
            "y": y.copy(),
            "y_hat": y_hat,
            "a": [one.copy() for one in a],
            "unaries": block_unaries,
            "residual": max(np.linalg.norm(d) for d in apart),
            "relaxed": dense_energy(blocks.u, blocks.W, y),
            "shares": sum(
                blocks.u_hat[k] @ y_hat[k] + y_hat[k] @ blocks.A[k] @ y + y_hat[k] @ blocks.L_hat[k] @ y_hat[k]
                for k in range(len(a))
            ),
            "multipliers": mu * sum(old[k] @ apart[k] for k in range(len(a))),
            "penalty": mu / 2 * sum(d @ d for d in apart),
            "disagreeing": sum(
                any(y_hat[k][list(m).index(i)] != (y[i] > 0.5) for k, m in enumerate(blocks.members) if i in m)
                for i in range(n)
            ),
        }
        mu *= mu_fact


def bracketed(energy, partition, minimizers):
    """What holds of all minimisers, block by block: never less than `low`, never more than `high`, both flat.

    Each block alone, all sites outside 0 for `low` and 1 for `high`; `minimizers(unary, edges, weights)` gives the
    smallest and the largest of the block.
    """
    first, second, weights = energy.pairs.edges()
    numbers = np.arange(energy.unary.size).reshape(energy.shape)
    low, high = np.zeros(energy.unary.size, bool), np.zeros(energy.unary.size, bool)
    for block in partition.blocks:
        sites = numbers[block.where].ravel()
        place = np.full(energy.unary.size, -1)
        place[sites] = np.arange(len(sites))
        a, b = place[first], place[second]
        inside = (a >= 0) & (b >= 0)
        outward = np.zeros(len(sites))
        for ends in (a, b):
            crossing = (ends >= 0) & ~inside
            np.add.at(outward, ends[crossing], weights[crossing])
        edges = np.stack([a[inside], b[inside]], axis=1)
        unary = energy.unary.ravel()[sites].astype(float)
        low[sites] = minimizers(unary + outward, edges, weights[inside])[0]
        high[sites] = minimizers(unary - outward, edges, weights[inside])[1]
    return low, high
