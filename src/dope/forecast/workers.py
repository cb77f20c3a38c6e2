"""Plans for workers that are not here, of arrays of which only the sizes are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dope.energy import Energy
from dope.errors import DopeError, InputError
from dope.footprint import BOX_PROCESS_BYTES
from dope.label_costs import MOST_LABELS
from dope.label_energy import LabelEnergy
from dope.memory import as_text
from dope.methods import Bracketing
from dope.pairs import Kernel
from dope.planning import Plan, plan
from dope.protocols import Crew, Recipe
from dope.stored import Absent, AbsentCosts, AbsentPixels

# Workers of a cluster, and bytes of a site.
MOST_SIZE = (1 << 31) - 1


@dataclass(frozen=True)
class Workers:
    """So many workers, each a process of its own somewhere: enough to plan for."""

    workers: int
    elsewhere: bool = field(default=True, repr=False)

    def gather(self, recipes: Sequence[Recipe]) -> Crew:
        raise DopeError(f"{len(recipes)} blocks are to be worked on by workers that are only planned for.")


def outline_energy(shape: Sequence[int], *, kernel: Kernel = 3, pixel_bytes: int = 1, unary_bytes: int = 4) -> Energy:
    """An energy of which only the sizes are known: of a pixel and of a site's unary, in bytes."""
    sides, pixels = _outline(shape, pixel_bytes, unary_bytes)
    return Energy.grid(Absent(sides, unary_bytes), features=pixels, kernel=kernel)


def outline_labels(
    shape: Sequence[int], labels: int, *, kernel: Kernel = 3, pixel_bytes: int = 1, unary_bytes: int = 4
) -> LabelEnergy:
    """The same of several labels; `unary_bytes` are those of a label's probability, from which a float32 is made."""
    sides, pixels = _outline(shape, pixel_bytes, unary_bytes)
    if not 2 <= labels <= MOST_LABELS:
        raise InputError(f"labels is {labels}; expected 2 to {MOST_LABELS:,}.")
    return LabelEnergy.grid(AbsentCosts(sides, labels, labels * (4 + unary_bytes)), features=pixels, kernel=kernel)


def _outline(shape: Sequence[int], pixel_bytes: int, unary_bytes: int) -> tuple[tuple[int, ...], Any]:
    """Sides and pixels, checked."""
    sides = tuple(shape)
    if not sides or any(n < 1 for n in sides):
        raise InputError(f"shape is {sides}; expected the number of sites along each axis, at least 1.")
    check_size("pixel_bytes", pixel_bytes, 0)
    check_size("unary_bytes", unary_bytes, 1)
    return sides, AbsentPixels((*sides, pixel_bytes)) if pixel_bytes else None


def plan_for_workers(
    energy: Energy | LabelEnergy, *, workers: int, memory: int, blocks: int | Sequence[int] | None = None
) -> Plan:
    """With the blocks that fit where each worker has so much memory, or with those given, which have to fit."""
    check_size("workers", workers, 1)
    room = memory - BOX_PROCESS_BYTES
    if room <= 0:
        raise InputError(f"a worker has {as_text(memory)}; expected more than {as_text(BOX_PROCESS_BYTES)}.")
    method = Bracketing() if isinstance(energy, Energy) else None
    found = plan(energy, blocks=blocks, method=method, executor=Workers(workers), memory=memory_in_all(workers, room))
    if found.worker_bytes > memory:
        raise InputError(
            f"a block takes {as_text(found.worker_bytes)}, and a worker has {as_text(memory)}; ask for more blocks."
        )
    return found


def memory_in_all(workers: int, room: int) -> int:
    """What `minimize` is to be told, where every worker has room for blocks; it counts one process."""
    return workers * room + BOX_PROCESS_BYTES


def check_size(name: str, value: int, least: int) -> None:
    """Refuse numbers below their least, or such as nothing has."""
    if not least <= value <= MOST_SIZE:
        raise InputError(f"{name} is {value}; expected {least} to {MOST_SIZE:,}.")
