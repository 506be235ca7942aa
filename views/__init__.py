"""View definitions: SQL over source tables, checked and translated. Pure; sqlglot lives here."""
