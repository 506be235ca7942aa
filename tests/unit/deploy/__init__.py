"""What is in ``deploy/``: checked by the tools of those who run it, and against the program."""
