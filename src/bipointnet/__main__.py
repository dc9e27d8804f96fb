"""Run the command line: `python -m bipointnet` is the same as `bipointnet`."""

from bipointnet.cli import main

if __name__ == "__main__":
    main()
