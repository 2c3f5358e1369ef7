"""Times of operator calls: measured here, kept in a file, handed to the core."""
