"""Who is whose neighbour, and what it costs to differ: kernels, the pairs of a grid, the pairs of a graph."""

from dope.arrays import Box
from dope.pairs.boxes import ends, strips
from dope.pairs.contrast import mean_contrast_beta, native_features
from dope.pairs.fused import Fused
from dope.pairs.graph import GraphPairs, TablePairs, graph_pairs, sorted_graph, table_pairs
from dope.pairs.grid import PARTING, GridPairs
from dope.pairs.kernels import MOST_AXES, MOST_HALF_OFFSETS, Kernel, half_offsets, offset_lengths

Pairs = GridPairs | GraphPairs

__all__ = [
    "MOST_AXES",
    "MOST_HALF_OFFSETS",
    "PARTING",
    "Box",
    "Fused",
    "GraphPairs",
    "GridPairs",
    "Kernel",
    "Pairs",
    "TablePairs",
    "ends",
    "graph_pairs",
    "half_offsets",
    "mean_contrast_beta",
    "native_features",
    "offset_lengths",
    "sorted_graph",
    "strips",
    "table_pairs",
]
