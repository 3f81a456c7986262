"""Where rows come from: one file for each kind of source, the engine that evaluates them, and what engines call things."""
