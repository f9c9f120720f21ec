"""A Struct that can also be read like a mapping: the type of the client's results."""

from collections.abc import Iterator
from typing import Any

import msgspec


class Result(msgspec.Struct, kw_only=True):
    """The base of all results: a Struct whose fields can be read as the keys of a mapping, too."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.__struct_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self.__struct_fields__

    def __iter__(self) -> Iterator[str]:
        return iter(self.__struct_fields__)

    def __len__(self) -> int:
        return len(self.__struct_fields__)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field; ``default`` where there is none of that name."""
        return getattr(self, name) if name in self.__struct_fields__ else default

    def keys(self) -> tuple[str, ...]:
        return self.__struct_fields__

    def values(self) -> list[Any]:
        return [getattr(self, name) for name in self.__struct_fields__]

    def items(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.__struct_fields__]
