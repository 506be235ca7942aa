"""Views of one table by Spark alone, and what views over mirrors in Delta share with them."""
