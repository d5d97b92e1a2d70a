"""`Schema`: what a model remembers of the data it was made for, so that others are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from mogp.data.inputs import InputColumn, column_names, columns_agree

Names: TypeAlias = "Sequence[str] | Schema | None"
"""Names of outputs; or the schema of data, which also has their input columns and classes."""


@dataclass(frozen=True)
class Schema:
    """Names of outputs, of input columns and of classes.

    Args:
        names: of the `D` outputs.
        columns: the `P` input columns; empty if they are not known.
        classes: for each output the names of its classes, or None; empty if they are not known.
        nested: whether replicas are nested in outputs.
        chosen: whether someone gave the names; if not, those of the first data count.

    >>> Schema(("rain", "wind"), (InputColumn("hour"),)).input_names
    ('hour',)
    """

    names: tuple[str, ...]
    columns: tuple[InputColumn, ...] = ()
    classes: tuple[tuple[str, ...] | None, ...] = ()
    nested: bool = False
    chosen: bool = True

    @classmethod
    def of(cls, names: Names, outputs: int) -> Schema:
        """From names, a schema, or nothing.

        Args:
            names: given by the user.
            outputs: how many there are, `D`.

        >>> Schema.of(None, 2).names
        ('output 0', 'output 1')
        """
        if names is None:
            return cls(tuple(f"output {d}" for d in range(outputs)), chosen=False)
        found = names if isinstance(names, Schema) else cls(tuple(names))
        if len(found.names) != outputs:
            raise ValueError(
                f"{len(found.names)} names ({_some(found.names)}) for {outputs} outputs."
            )
        return found

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the input columns, where they are known."""
        return column_names(self.columns)

    def classes_of(self, output: int) -> tuple[str, ...] | None:
        """Names of the classes of an output, if it has any.

        Args:
            output: its position.
        """
        return self.classes[output] if self.classes else None

    def completed(self, other: Schema) -> Schema:
        """With what was not known taken from the schema of data.

        Args:
            other: of data that agree.

        >>> Schema.of(None, 1).completed(Schema(("rain",))).names
        ('rain',)
        """
        if not self.chosen:
            return other
        if not self.columns:
            return replace(other, names=self.names)
        return self

    def check(self, other: Schema, some: bool = False) -> None:
        """Raise unless data have the same outputs in the same order, and the same input columns.

        Args:
            other: of the data.
            some: whether outputs may be missing.

        >>> Schema(("a", "b")).check(Schema(("b", "a")))
        Traceback (most recent call last):
        ...
        ValueError: the data have the outputs in the order b, a, the model in the order a, b; build the data in the order of the model (like= does so).
        """  # noqa: E501
        self._check_names(other.names, some)
        if not self.columns or not other.columns:
            return
        if len(other.columns) != len(self.columns):
            raise ValueError(
                f"the data have {len(other.columns)} input columns ({_some(other.input_names)}),"
                f" the model has {len(self.columns)} ({_some(self.input_names)})."
            )
        if not columns_agree(self.columns, other.columns):
            raise ValueError(
                f"the data have the input columns {_some(_described(other))}, the model"
                f" {_some(_described(self))}; names, order and kind must agree."
            )
        self._check_classes(other)

    def _check_names(self, given: tuple[str, ...], some: bool) -> None:
        names = self.names
        if given == names or (not self.chosen and len(given) == len(names)):
            return
        if self.chosen and some and given == tuple(n for n in names if n in given):
            return
        if self.chosen and sorted(given) == sorted(names):
            raise ValueError(
                f"the data have the outputs in the order {_some(given)}, the model in the order"
                f" {_some(names)}; build the data in the order of the model (like= does so)."
            )
        raise ValueError(
            f"the data have {len(given)} outputs ({_some(given)}), the model has {len(names)}"
            f" ({_some(names)}); names and order must agree."
        )

    def _check_classes(self, other: Schema) -> None:
        known = dict(zip(self.names, self.classes, strict=False))
        for name, classes in zip(other.names, other.classes, strict=False):
            mine = known.get(name)
            if mine and classes and mine != classes:
                raise ValueError(
                    f"the data have the classes {_some(classes)} for output {name!r}, the model"
                    f" {_some(mine)}; read the data with like=, so that classes have the same"
                    " numbers."
                )


def _described(schema: Schema) -> list[str]:
    return [
        f"{name} (dates)" if column.date else name
        for name, column in zip(schema.input_names, schema.columns, strict=True)
    ]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
