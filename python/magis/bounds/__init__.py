"""Bounds that no plan passes, from linear programmes. Free of PyTorch."""
