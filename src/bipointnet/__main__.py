"""`python -m bipointnet` is the command `bipointnet`."""

from bipointnet.cli import main

if __name__ == "__main__":
    main()
