"""Whether a certificate proves the bound that it claims, found out by a short, slow and separate way.

Nothing here is shared with the solvers: weights come straight from their definition, in NumPy, and so does the minimum
of every block. A block is all that is held at a time. What is confirmed is, in the letters of `certificate`,

    1. every flow listed is over a pair of the energy that crosses a seam, and |f_ij| <= w_ij;
    2. bounds_k = min over block k of [ sum_i (u_i + sum_j f_ij) y_i + pairs inside k ], in whole units of 1 / scale;
    3. what counting the costs in units can have added to the bound is no more than the rounding error admitted.

The bound of the verdict is the one that was found on the way, less all that rounding changed, and not the one that was
claimed: no number of a certificate is trusted. Sums are fractions (`units`), and become floats at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dope.arrays import Box, as_labels
from dope.certificate import AnyCertificate, Certificate, StoredCertificate
from dope.energy import Energy
from dope.errors import InputError
from dope.facts import measure_facts
from dope.label_energy import LabelEnergy
from dope.partition import Partition
from dope.rounding import nearest, rounded_down
from dope.verify.flows import Flows, SeamReader
from dope.verify.minimum import block_minimum
from dope.verify.parts import GridParts, Part, Parts, parts_of, strips_of
from dope.verify.turns import InTurn
from dope.verify.units import FaultError, Reals, Unit, real_sum

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
    rounding_error : of exact labels, no others have less energy by more than this; 0 where none have less.
    """

    valid: bool
    reason: str
    energy: float
    lower_bound: float | None = None
    exact: bool = False
    rounding_error: float = 0.0

    @property
    def gap(self) -> float | None:
        """energy - lower_bound, None where nothing was proved."""
        return None if self.lower_bound is None else self.energy - self.lower_bound

    def __bool__(self) -> bool:
        return self.valid


def verify(
    energy: Energy,
    labels: npt.ArrayLike,
    certificate: AnyCertificate,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> Verdict:
    """Find out whether a certificate proves a lower bound of an energy, and how far above it the labels are.

    An energy whose arrays are not in memory, labels in a file (Zarr, a mapped array) and a certificate in a folder are
    read block by block: no more is held than one block takes.

    Parameters
    ----------
    energy : Energy
        With no weight below 0.
    labels : array
        Shaped like the unary, bool or 0/1.
    certificate : Certificate or StoredCertificate
        What is doubted: a fault in it makes an invalid verdict, which gives the reason, and no error.
    progress : callable, optional
        Called with the number of blocks that were looked at, and that of all.

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
            lower_bound=-1.0, exact=True, rounding_error=0.0)
    """
    if isinstance(energy, LabelEnergy):
        raise InputError(
            f"energy is of {energy.label_count} labels, and certificates are of energies of two; a run of several has "
            f"none. Its result.proved says which fraction of the sites has labels of a minimum, and "
            f"result.lower_bound below which energy no labels are."
        )
    if not isinstance(energy, Energy):
        raise InputError(f"energy is a {type(energy).__name__}; expected an Energy. Make one with Energy.grid(...).")
    if not isinstance(certificate, (Certificate, StoredCertificate)):
        raise InputError(
            f"certificate is a {type(certificate).__name__}; expected a Certificate, or a StoredCertificate."
        )
    doubted = replace(certificate)  # checked again: its arrays may have changed since it was made
    read, fault = _reader(labels, energy.shape), None
    try:
        parts = parts_of(energy, doubted.cuts, doubted.members, len(doubted.bounds))
    except FaultError as found:
        parts, fault = strips_of(energy), found
    parts = _measured(parts)
    whole = _surveyed(parts, read)
    try:
        if fault is not None:
            raise fault
        return _confirmed(parts, whole, doubted, progress)
    except FaultError as found:
        return Verdict(valid=False, reason=str(found), energy=nearest(whole.cost))


def _measured(parts: Parts) -> Parts:
    """With what must be known about all of the energy, such as the mean contrast, where it is not in memory."""
    if parts.energy.in_memory or not isinstance(parts, GridParts):
        return parts
    partition = Partition.at(parts.energy.shape, parts.cuts)
    return replace(parts, energy=measure_facts(parts.energy, partition, InTurn()))


@dataclass(frozen=True)
class _Survey:
    """What labels cost, and all that they decide about: what each site could save by one label, or its pairs."""

    cost: Fraction
    at_stake: Fraction


def _surveyed(parts: Parts, read: Callable[[Box | None], npt.NDArray[np.bool_]]) -> _Survey:
    """An energy that no certificate can be about is refused."""
    cost, at_stake = Fraction(parts.energy.constant), 0.0
    for k in range(parts.number):
        part = parts.part(k)
        _check_costs(part)
        y = read(part.box).reshape(-1)
        cost += real_sum(part.unary[y[part.sites]])
        for pairs in (part.inner, part.crossing.where(part.begins)):
            ends = (pairs.first, pairs.second)
            one, other = (y[part.sites[end]] if pairs is part.inner else y[end] for end in ends)
            cost += real_sum(pairs.weights[one != other])
        at_stake += float(np.minimum(np.abs(part.unary), part.reach).sum())
    return _Survey(cost, Fraction(at_stake))


def _check_costs(part: Part) -> None:
    weights = np.concatenate([part.inner.weights, part.crossing.weights])
    if not np.all(np.isfinite(part.unary)):
        raise InputError("the unary is beyond float64; expected finite costs.")
    if not np.all(weights >= 0.0):
        raise InputError(
            f"a pair weight is as low as {weights.min():g}; a certificate needs weights of 0 or more, as "
            f"flows prove nothing about others."
        )
    if not np.all(np.isfinite(weights)):
        raise InputError("a pair weight is beyond float64; expected finite costs.")


def _reader(labels: Any, shape: tuple[int, ...]) -> Callable[[Box | None], npt.NDArray[np.bool_]]:
    """The labels of a box, or of all sites, of an array in memory or of one that is read as it is indexed."""
    stored = hasattr(labels, "shape") and hasattr(labels, "__getitem__") and type(labels) is not np.ndarray
    if not stored or tuple(labels.shape) != shape:
        whole = as_labels(labels, shape)
        return lambda box: whole if box is None else whole[box]

    def read(box: Box | None) -> npt.NDArray[np.bool_]:
        place = tuple(slice(0, n) for n in shape) if box is None else box
        return as_labels(np.asarray(labels[place]), tuple(s.stop - s.start for s in place))

    return read


def _confirmed(
    parts: Parts, whole: _Survey, certificate: AnyCertificate, progress: Callable[[int, int], object] | None
) -> Verdict:
    """The verdict on a certificate without fault; a fault is raised."""
    unit, constant = Unit(certificate.scale), Fraction(parts.energy.constant)
    claims = certificate.bounds.tolist()
    seams = SeamReader(certificate, parts, unit)
    found, lost, beyond = 0, Fraction(0), Fraction(0)
    for k, claimed in enumerate(claims):
        part = parts.part(k)
        flows = seams.into(part, k)
        counted = _block_minimum(part, flows, unit)
        _check_bound(k, claimed, counted)
        found += counted.minimum
        lost += counted.lost + flows.lost
        beyond += counted.beyond
        if progress is not None:
            progress(k + 1, len(claims))
    proved = Fraction(found) / Fraction(unit.scale) + beyond - lost
    _check_claim(certificate, proved)
    gap = whole.cost - constant - proved
    # A minimum in units is above the bound by no more than rounding changed, once for each of the two.
    exact = gap <= 0 or (gap <= 2 * lost <= NEGLIGIBLE * whole.at_stake)
    cost = nearest(whole.cost)
    lower_bound = min(cost, rounded_down(constant + proved))
    rounding_error = -rounded_down(-gap) if exact and gap > 0 else 0.0
    what = "and these labels have it" if exact else f"but these labels have {nearest(gap):.6g} more"
    if rounding_error:
        what += f", up to {rounding_error:.2g} from rounding costs to units of {1 / unit.scale:.2g}"
    reason = f"no labels have an energy below {lower_bound:.12g}, {what}"
    return Verdict(True, reason, cost, lower_bound, exact, rounding_error)


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


def _block_minimum(part: Part, flows: Flows, unit: Unit) -> _Counted:
    first, second, added = part.inner.first, part.inner.second, flows.added
    weights, changed_weights = unit.weights(part.inner.weights)
    real: Reals = part.unary
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


def _check_bound(k: int, claimed: int, counted: _Counted) -> None:
    """Another exp than ours may have rounded some of a block's costs the other way: a unit for each of the rounded."""
    minimum, rounded = counted.minimum, counted.rounded
    if claimed > minimum + rounded:
        most = f", and no more than {rounded} above that for rounding" if rounded else ""
        raise FaultError(f"the bound of block {k} is {claimed} units; expected its minimum, {minimum}{most}")
    if claimed < minimum and not rounded:
        raise FaultError(f"the bound of block {k} is {claimed} units, below its minimum, {minimum}; expected just that")


def _check_claim(certificate: AnyCertificate, proved: Fraction) -> None:
    if certificate.claim > proved:
        claimed, needed = Fraction(sum(certificate.bounds.tolist())) / Fraction(certificate.scale), proved
        raise FaultError(
            f"the rounding error is given as {certificate.rounding_error:g}, but counting the costs in these units can "
            f"put the bound off by {nearest(claimed - needed):g}"
        )
