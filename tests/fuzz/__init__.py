"""Neighbors, end to end: random tables and questions over every source, and what must hold between tables that differ in one unit.

    python -m fuzz --minutes 10 --seed 1        look for findings (with tests/ on the path; `make fuzz MINUTES=10`)
    python -m fuzz --case FILE_OR_SEED          say what one case finds
    python -m fuzz --broken NAME                look with one mend taken out: it must be found

A *case* is one table with its neighbors, one question, one kind of source. A seed makes it, a small file keeps it.
"""
