"""Reading tables: values, what the columns are, the clock of the rows, and what looks wrong."""
