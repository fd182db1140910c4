"""Components of model selection: candidates, their order, rounds of fits, and a time budget."""
