"""Events and rows of views that could not be applied: put aside, found, retried."""
