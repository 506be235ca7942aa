"""What needs the extra `serve` is left out where it is not installed; `make` installs it."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("fastapi") and find_spec("argon2") else ["*.py", "*/*.py"]
