"""Reading of tables: values, roles of the columns, times of the rows, and detection of likely errors."""
