"""Rows of a table as of one LSN, kept in a file for all clients that come soon."""
