"""Keys of views that Spark computes, proven. Pure."""
