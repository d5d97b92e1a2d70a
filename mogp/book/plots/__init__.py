"""Drawings that one chapter or the data cards need."""

from mogp.book.plots.dashboard import annotator_dashboard
from mogp.book.plots.diagrams import graph
from mogp.book.plots.maps import cell_map, cell_maps

__all__ = ["annotator_dashboard", "cell_map", "cell_maps", "graph"]
