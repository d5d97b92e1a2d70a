"""Runs of the documents' experiments, for sweeps: one module a kind of experiment."""
