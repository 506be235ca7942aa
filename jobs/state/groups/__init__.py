"""Groups of views that are kept by the change."""
