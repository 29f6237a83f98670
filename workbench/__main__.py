"""`python -m workbench` is `workbench`."""

from .cli import main

main()
