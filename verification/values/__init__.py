"""Values of source and stores in one form. Pure."""
