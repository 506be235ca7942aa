"""Which keys of a view a change touches. Pure."""
