"""Maximum likelihood: initial parameters, objectives, optimizers and standard errors."""
