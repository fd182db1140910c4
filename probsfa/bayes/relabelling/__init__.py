"""One labelling for all posterior draws, and the draws in the units of the data."""
