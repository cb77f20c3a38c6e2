"""Whether a certificate proves the bound that it claims, found out by a short, slow and separate way.

Nothing here is shared with the solvers: weights come straight from their definition, in NumPy, and so does the minimum
of every block. What is confirmed is, in the letters of `certificate`,

    1. every flow listed is over a pair of the energy that crosses a seam, and |f_ij| <= w_ij;
    2. bounds_k = min over block k of [ sum_i (u_i + sum_j f_ij) y_i + pairs inside k ], in whole units of 1 / scale;
    3. what counting the costs in units can have added to the bound is no more than the rounding error admitted.

The bound of the verdict is the one that was found on the way, less all that rounding changed, and not the one that was
claimed: no number of a certificate is trusted. Sums are fractions (`units`), and become floats at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dope.arrays import Labels, as_labels
from dope.certificate import Certificate
from dope.energy import Energy
from dope.errors import InputError
from dope.rounding import nearest, rounded_down
from dope.verify.blocks import Block, all_pairs, blocks_of
from dope.verify.flows import Flows
from dope.verify.minimum import block_minimum
from dope.verify.units import FaultError, Unit, real_sum

# What rounding may cost of all that labels decide about, for labels to be called exact in spite of it.
NEGLIGIBLE = Fraction(1, 1 << 20)


@dataclass(frozen=True)
class Verdict:
    """What `verify` found; true where the certificate is valid.

    Attributes
    ----------
    valid : whether the certificate proves the bound that it claims.
    reason : why, or why not.
    energy : the energy of the labels, recomputed; constant included.
    lower_bound : no labels have less energy than this, constant included; None where nothing was proved.
    exact : whether the labels were shown to have the least energy there is: it equals the bound. Where costs are not
        whole in the certificate's units, it may be above by twice what rounding changed, if that is less than a
        millionth of all that labels decide about, sum_i min(|u_i|, w_i) with w_i the weight of the pairs of site i.
    """

    valid: bool
    reason: str
    energy: float
    lower_bound: float | None = None
    exact: bool = False

    @property
    def gap(self) -> float | None:
        """energy - lower_bound, None where nothing was proved."""
        return None if self.lower_bound is None else self.energy - self.lower_bound

    def __bool__(self) -> bool:
        return self.valid


def verify(energy: Energy, labels: npt.ArrayLike, certificate: Certificate) -> Verdict:
    """Find out whether a certificate proves a lower bound of an energy, and how far above it the labels are.

    Parameters
    ----------
    energy : Energy
        With no weight below 0.
    labels : array
        Shaped like the unary, bool or 0/1.
    certificate : Certificate
        What is doubted: a fault in it makes an invalid verdict, which gives the reason, and no error.

    Returns
    -------
    Verdict

    Examples
    --------
    Two blocks of one site each, and a flow of 1 from the first to the second:

    >>> import numpy as np
    >>> energy = Energy.grid(np.array([-2.0, 1.0]), kernel=[[1]])
    >>> certificate = Certificate(
    ...     scale=1.0,
    ...     cuts=((1,),),
    ...     members=None,
    ...     first=np.array([0]),
    ...     second=np.array([1]),
    ...     flow=np.array([1]),
    ...     bounds=np.array([-1, 0]),
    ... )
    >>> verify(energy, [1, 1], certificate)
    Verdict(valid=True, reason='no labels have an energy below -1, and these labels have it', energy=-1.0,
            lower_bound=-1.0, exact=True)
    """
    if not isinstance(energy, Energy):
        raise InputError(f"energy is a {type(energy).__name__}; expected an Energy. Make one with Energy.grid(...).")
    if not isinstance(certificate, Certificate):
        raise InputError(f"certificate is a {type(certificate).__name__}; expected a Certificate.")
    y = as_labels(labels, energy.shape).reshape(-1)
    cost = _energy(energy, y)
    doubted = replace(certificate)  # checked again: its arrays may have changed since it was made
    try:
        return _confirmed(energy, cost, doubted)
    except FaultError as fault:
        return Verdict(valid=False, reason=str(fault), energy=nearest(cost))


def _confirmed(energy: Energy, cost: Fraction, certificate: Certificate) -> Verdict:
    """The verdict on a certificate without fault; a fault is raised."""
    unit = Unit(certificate.scale)
    blocks = blocks_of(energy.pairs, certificate)
    flows = Flows.of(certificate, blocks, unit)
    unary = energy.unary.reshape(-1)
    found, lost = 0, flows.lost
    beyond = Fraction(0)
    for k, claimed in enumerate(certificate.bounds.tolist()):
        counted = _block_minimum(unary, blocks.block(k), flows, k, unit)
        _check_bound(k, claimed, counted)
        found += counted.minimum
        lost += counted.lost
        beyond += counted.beyond
    proved = Fraction(found) / Fraction(unit.scale) + beyond - lost
    _check_claim(certificate, proved)
    gap = cost - Fraction(energy.constant) - proved
    # A minimum in units is above the bound by no more than rounding changed, once for each of the two.
    exact = gap <= 0 or (gap <= 2 * lost <= NEGLIGIBLE * _at_stake(energy))
    lower_bound = min(nearest(cost), rounded_down(Fraction(energy.constant) + proved))
    what = "and these labels have it" if exact else f"but these labels have {nearest(gap):.6g} more"
    reason = f"no labels have an energy below {lower_bound:.12g}, {what}"
    return Verdict(True, reason, nearest(cost), lower_bound, exact)


@dataclass(frozen=True)
class _Counted:
    """The minimum of a block in units, and what came of counting in them.

    Attributes
    ----------
    minimum : in units.
    lost : by how much the costs that had to be rounded changed, all together, and `rounded` how many they are.
    beyond : what is to be added for unaries that decide their site alone: these are taken as they are.
    """

    minimum: int
    rounded: int
    lost: Fraction
    beyond: Fraction


def _block_minimum(unary: npt.NDArray[np.floating], block: Block, flows: Flows, k: int, unit: Unit) -> _Counted:
    first, second, added = block.pairs.first, block.pairs.second, flows.into(block, k)
    weights, changed_weights = unit.weights(block.pairs.weights)
    real = unary[block.sites].astype(np.float64)
    own, changed = unit.unary(real)
    unit.check_site_sums(np.concatenate([first, second]), np.tile(weights, 2))
    reach = np.abs(added).astype(np.float64)
    reach += np.bincount(first, weights, len(reach)) + np.bincount(second, weights, len(reach))
    # With room for the last bit of these sums.
    alone = np.abs(own) > reach * (1 + 2.0**-40) + 1
    changes = np.concatenate([changed[~alone], changed_weights])
    return _Counted(
        minimum=block_minimum(own, added, first, second, weights),
        rounded=int(np.count_nonzero(changes)) + int(np.count_nonzero(changed[alone])),
        lost=real_sum(changes),
        beyond=-real_sum(np.where(own > real * unit.scale, changed, -changed)[alone & (own < 0)]),
    )


def _at_stake(energy: Energy) -> Fraction:
    """All that labels decide about: what each site could save by one label, or its pairs by the other."""
    unary = np.abs(energy.unary.reshape(-1).astype(np.float64))
    reach = np.zeros(len(unary))
    for some in all_pairs(energy.pairs):
        reach += np.bincount(some.first, some.weights, len(reach)) + np.bincount(some.second, some.weights, len(reach))
    return Fraction(float(np.minimum(unary, reach).sum()))


def _check_bound(k: int, claimed: int, counted: _Counted) -> None:
    """Another exp than ours may have rounded some of a block's costs the other way: a unit for each of the rounded."""
    minimum, rounded = counted.minimum, counted.rounded
    if claimed > minimum + rounded:
        most = f", and no more than {rounded} above that for rounding" if rounded else ""
        raise FaultError(f"the bound of block {k} is {claimed} units; expected its minimum, {minimum}{most}")
    if claimed < minimum and not rounded:
        raise FaultError(f"the bound of block {k} is {claimed} units, below its minimum, {minimum}; expected just that")


def _check_claim(certificate: Certificate, proved: Fraction) -> None:
    if certificate.claim > proved:
        claimed, needed = Fraction(sum(certificate.bounds.tolist())) / Fraction(certificate.scale), proved
        raise FaultError(
            f"the rounding error is given as {certificate.rounding_error:g}, but counting the costs in these units can "
            f"put the bound off by {nearest(claimed - needed):g}"
        )


def _energy(energy: Energy, y: Labels) -> Fraction:
    """The energy of the labels; an energy that no certificate can be about is refused."""
    if not np.all(np.isfinite(energy.unary)):
        raise InputError("the unary is beyond float64; expected finite costs.")
    total = Fraction(energy.constant) + real_sum(energy.unary.reshape(-1)[y].astype(np.float64))
    for some in all_pairs(energy.pairs):
        if not np.all(some.weights >= 0.0):
            raise InputError(
                f"a pair weight is as low as {some.weights.min():g}; a certificate needs weights of 0 or more, as "
                f"flows prove nothing about others."
            )
        if not np.all(np.isfinite(some.weights)):
            raise InputError("a pair weight is beyond float64; expected finite costs.")
        total += real_sum(some.weights[y[some.first] != y[some.second]])
    return total
