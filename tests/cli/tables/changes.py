"""New texts of cells, as a table asks for them."""


def changes(texts):
    """Give the texts of a block of rows, from those of all rows of each column."""
    return lambda rows: {
        column: {row: text for row, text in new.items() if rows.start <= row < rows.stop}
        for column, new in texts.items()
    }
