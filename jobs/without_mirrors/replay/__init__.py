"""The stream of a view that Spark computes, begun again earlier; and its rows repaired."""
