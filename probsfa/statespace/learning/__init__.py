"""Maximum likelihood: starts, objectives, climbs and standard errors."""
