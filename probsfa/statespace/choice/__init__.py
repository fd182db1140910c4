"""Components of model selection: candidates, their order, fits, and a time budget."""
