"""Maximum likelihood: starts, objectives, optimization runs and standard errors."""
