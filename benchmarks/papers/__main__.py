"""Run the benchmark: ``python -m benchmarks.papers``."""

from __future__ import annotations

from benchmarks.papers.run import main

if __name__ == "__main__":
    main()
