"""SQL that writes values in the form that events and stores have. Pure."""
