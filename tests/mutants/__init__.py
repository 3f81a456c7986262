"""Small wrong changes of the source, each with the tests that must convict it: `python -m mutants`."""
