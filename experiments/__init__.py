"""The figures and tables of the papers, with sordino's public names only."""
