"""What the choice of a model is made of: candidates, their order, rounds of fits, and a budget of time."""
