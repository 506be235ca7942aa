"""Commands on views that a running process carries out."""
