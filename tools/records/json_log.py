"""Log lines as JSON, an object a line, for programs that collect logs."""

from __future__ import annotations

import json
import logging

from .fields import iso_time


class JsonFormatter(logging.Formatter):
    """`time` (ISO 8601, UTC), `level`, `logger`, `message`, and `traceback` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": iso_time(int(record.created * 1000)),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)
