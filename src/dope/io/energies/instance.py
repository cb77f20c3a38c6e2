"""What a file of an energy holds: the energy, and what its readers call the value that they look for."""

from __future__ import annotations

from dataclasses import dataclass

from dope.energy import Energy
from dope.label_energy import LabelEnergy


@dataclass(frozen=True)
class Objective:
    """The value that a format is about, sign x energy: `name` of any labels, `optimum` where they are a minimum."""

    name: str
    optimum: str
    sign: float = 1.0

    def of(self, energy: float) -> float:
        return self.sign * energy + 0.0  # no -0


@dataclass(frozen=True, eq=False)
class Instance:
    """An energy from a file, and what the file is about."""

    energy: Energy | LabelEnergy
    format: str
    objective: Objective | None = None
