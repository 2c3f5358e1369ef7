"""A plan in files for viewers that people have: PyTorch's memory viewer, Perfetto."""
