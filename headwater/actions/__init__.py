"""Commands of the command line, run for somebody who is not at a terminal."""
