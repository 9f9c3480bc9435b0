"""The same as ``python -m benchmarks.checks.run``."""

from benchmarks.checks.run import main

if __name__ == "__main__":
    main()
