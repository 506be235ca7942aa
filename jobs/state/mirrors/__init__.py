"""Mirrors of source tables in the state database: their DDL, types and filling."""
