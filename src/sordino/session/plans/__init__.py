"""Plans: what a release will give, said before it is paid for, without a row."""
