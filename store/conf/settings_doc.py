"""What `help(StoreSettings)` shows: each setting with its type, its default and the text that stands below it.

Python keeps a string that stands below a field nowhere; it is read from the source when the class is made.
"""

from __future__ import annotations

import re
import sys
from typing import TypeVar

C = TypeVar("C", bound=type)

FIELD = re.compile(r'^    (\w+: [^\n]+)\n    """(.+?)"""$', re.MULTILINE | re.DOTALL)
"""A field of a class and the string below it. A pattern, because `ast` would take a hundredth of `import flightlog`."""


def show_fields(cls: C) -> C:
    """Decorator of a class: its fields stand in its docstring. Where there is no source (or no docstring, under `-OO`)
    it stays as it is."""
    get_source = getattr(getattr(sys.modules[cls.__module__], "__loader__", None), "get_source", None)
    source: str | None = None if get_source is None else get_source(cls.__module__)
    if source is None or cls.__doc__ is None:
        return cls
    body = source.partition(f"\nclass {cls.__name__}")[2].partition("\nclass ")[0]
    fields = (f"    {field}\n        {text.replace(chr(10), chr(10) + '    ')}" for field, text in FIELD.findall(body))
    cls.__doc__ = "\n\n".join((cls.__doc__.rstrip(), *fields)) + "\n"
    return cls
