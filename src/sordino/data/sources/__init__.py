"""Where rows come from: a file for each kind of source, the engine, and what engines call things."""
