"""A view's stream begun again at an earlier place, and its rows repaired."""
