"""Views of one table without a mirror, by Spark alone, and what ``engine = "delta"`` shares."""
