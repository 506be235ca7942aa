"""Keys of views, proven. Pure."""
