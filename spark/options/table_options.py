"""The options of a table that SQL made: `CREATE TABLE name USING flightlog OPTIONS (path '...')`.

Spark hands them to the source once, when the table is made and the source is asked for its columns, and none of them
when the table is read (seen on 4.0 and 4.3). What it keeps and gives back is the columns: so the options travel with
these, in their metadata.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from ..remote.addresses import ADDRESS

MADE_WITH = frozenset({"owner", "provider"})
"""What Spark adds to the options in a CREATE TABLE."""
OPTION_PREFIX = "option."
"""Of what stood in OPTIONS, the path excepted. Spark hands it over without the prefix, too, among other properties."""
METADATA_KEY = "flightlog.options"


def options_of_new_table(options: Mapping[str, str]) -> dict[str, str] | None:
    """What OPTIONS or LOCATION say in a CREATE TABLE; None where no table is made. A path is absolute from here on: a
    table outlives its session."""
    given = {name.lower(): value for name, value in options.items()}
    if not given.keys() >= MADE_WITH:
        return None
    found = {name.removeprefix(OPTION_PREFIX): value for name, value in given.items() if name.startswith(OPTION_PREFIX)}
    if path := given.get("path"):
        found["path"] = path if ADDRESS.match(path) else os.path.abspath(path)
    return found


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The same columns, each of which knows the options."""
    metadata = {METADATA_KEY: json.dumps(dict(options))}
    return StructType([StructField(field.name, field.dataType, field.nullable, metadata) for field in schema.fields])


def options_of_read(options: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """The options of a read; where no path is among them, those that the columns know."""
    if options.get("path") or options.get("paths"):
        return options
    for field in schema.fields:
        if METADATA_KEY in field.metadata:
            known: dict[str, str] = json.loads(field.metadata[METADATA_KEY])
            return known | dict(options)
    return options
