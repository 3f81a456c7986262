"""Where rows come from: a file for each kind of source, the engine that evaluates rows, and the words of engines."""
