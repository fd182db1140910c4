"""Status of a fit: how it ended and its findings, as records with codes, and as one text."""

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

__all__ = ["FitStatus", "Note"]


class Note(NamedTuple):
    """One finding of a fit.

    Attributes
    ----------
    code : str
        Name of the kind of finding, such as ``"converged"`` or ``"constant_columns"``.
    text : str
        One or several sentences.
    values : dict
        Numbers and names of the text.
    """

    code: str
    text: str
    values: dict[str, Any]


class FitStatus(str):
    """A text that consists of notes.

    Parameters
    ----------
    notes : iterable of Note
        Those without a text are left out.

    Attributes
    ----------
    notes : tuple of Note
        The findings, in the order of the text.

    Examples
    --------
    >>> status = FitStatus.of("converged", "Converged.").adding("size", "Selected 2.", n_components=2)
    >>> status
    'Converged. Selected 2.'
    >>> status.codes, status.notes[-1].values
    (('converged', 'size'), {'n_components': 2})
    """

    notes: tuple[Note, ...]

    def __new__(cls, notes: Iterable[Note]) -> Self:
        """Join the texts of the notes."""
        kept = tuple(note for note in notes if note.text)
        made = super().__new__(cls, " ".join(note.text.strip() for note in kept))
        made.notes = kept
        return made

    def __getnewargs__(self) -> Any:
        """Return the arguments from which copies are made."""
        return (self.notes,)

    @property
    def codes(self) -> tuple[str, ...]:
        """Codes of the notes."""
        return tuple(note.code for note in self.notes)

    def adding(self, code: str, text: str, **values: Any) -> Self:
        """Return the status with one more note, or the same if the text is empty."""
        return type(self)([*self.notes, Note(code, text, values)])

    @classmethod
    def of(cls, code: str, text: str, **values: Any) -> Self:
        """Return a status of one note."""
        return cls([Note(code, text, values)])
