"""Classification and regression by slow features."""
