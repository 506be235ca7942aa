"""Groups that are kept by the change. Pure."""
