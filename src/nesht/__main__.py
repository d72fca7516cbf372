"""`python -m nesht` is the command line."""

from nesht.cli import main

if __name__ == "__main__":
    main()
