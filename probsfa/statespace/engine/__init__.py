"""Exact inference over rows: what a strategy is, the strategies, and which one serves."""
