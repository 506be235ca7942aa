"""New generations of views, built from the mirrors."""
