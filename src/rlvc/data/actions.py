"""The numbers and names of actions, and the file ``actions.txt`` that holds them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlvc.data.io.checksums import Checksums, ChecksumWriter
from rlvc.data.validation import ProblemCollector

FILE = "actions.txt"


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """A discrete action space.

    Attributes:
        start: The first action, as the environment numbers them.
        n: The number of actions; None if it is not known.
        names: Their names, if they have any.

    >>> ActionSpec(0, 2, ("left", "right")).changed(None, 5, ("up", "down"))
    ActionSpec(start=5, n=2, names=('up', 'down'))
    """

    start: int = 0
    n: int | None = None
    names: tuple[str, ...] = ()

    def changed(self, n: int | None, start: int | None, names: tuple[str, ...]) -> ActionSpec:
        """Return the actions with the arguments of ``read_folder`` that are given."""
        if n is None:
            n = len(names) or self.n
        if n is not None and n < 1:
            raise ValueError(f"n_actions of read_folder must be at least 1; got {n}.")
        names = names or self.names
        if names and len(names) != n:
            raise ValueError(
                f"n_actions of read_folder must be {len(names)}, as there are so many names "
                f"({', '.join(names)}); got {n}. Name as many actions as there are."
            )
        return ActionSpec(self.start if start is None else start, n, names)


def read_actions(folder: Path, checksums: Checksums, problems: ProblemCollector) -> ActionSpec:
    """Return the contents of ``actions.txt``, if it exists, and add its problems."""
    try:
        data = (folder / FILE).read_bytes()
        checksums.check(FILE, data, problems)
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        return ActionSpec()
    except OSError as error:
        checksums.fits(FILE, None)
        problems.add(f"{FILE} cannot be read ({error.strerror}). Check that you may read it.")
        return ActionSpec()
    except UnicodeDecodeError as error:
        problems.add(f"{FILE} is not UTF-8 text (byte {error.start}). Save it as UTF-8.")
        return ActionSpec()
    lines = [line.split(maxsplit=1) for line in text.split("\n") if line.strip()]
    try:
        numbers = [int(line[0]) for line in lines]
    except ValueError:
        numbers = []
    if (
        not numbers
        or abs(numbers[0]) > 2**31
        or numbers != list(range(numbers[0], numbers[0] + len(numbers)))
    ):
        problems.add(
            f"{FILE} must have a line for each action, with its number and its name, such as "
            "'0 left', and the numbers must go up by one from line to line."
        )
        return ActionSpec()
    names = tuple(line[1].strip() for line in lines if len(line) > 1)
    if names and len(names) != len(numbers):
        problems.add(f"{FILE} must name all actions or none; it names {len(names)}.")
        names = ()
    return ActionSpec(numbers[0], len(numbers), names)


def write_actions(writer: ChecksumWriter, actions: ActionSpec) -> None:
    """Write ``actions.txt``; the number of actions must be known."""
    assert actions.n is not None
    names = actions.names or [""] * actions.n
    lines = [f"{actions.start + i} {name}".rstrip() + "\n" for i, name in enumerate(names)]
    writer.write(FILE, "".join(lines).encode())
