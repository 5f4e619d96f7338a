"""SQL92 filters and what RocketMQ makes of them: a vector for each rule. Properties b and c are 0 and 5 there."""

from __future__ import annotations

Row = tuple[str, str | None, str]
"""Expression, the property a, verdict: T, F, N for null, E for what cannot be compared."""

NUMBERS: list[Row] = [
    ("a > 5", "6", "T"),
    ("a > 5", "5", "F"),
    ("a >= 5", "+5", "T"),
    ("a < 5", "-2147483648", "T"),
    ("a > 5", None, "N"),
    ("a = 5", "05", "T"),
    ("a = 5", "٥", "T"),  # digits of any script
    ("a = 5", "\U0001d7d3", "E"),  # of the first plane
    ("a = 5", "0" * 5000 + "5", "T"),
    ("a = 5", "9" * 5000, "E"),
    ("a > 5", "5.5", "E"),  # no Integer
    ("a > 5", " 6", "E"),
    ("a > 5", "1_000", "E"),
    ("a > 5", "x", "E"),
    ("a > 5", "", "E"),
    ("a > 5", "2147483648", "E"),  # beside an Integer
    ("a > 2147483648", "3000000000", "T"),  # beside a Long
    ("a = -2147483648", "3000000000", "F"),  # which this is, too
    ("a > 2147483648", "9223372036854775808", "E"),
    ("a < 7L", "5", "T"),
    ("5 < a", "6", "T"),
    ("5 = a", "5", "T"),
    ("5 = a", None, "F"),
    ("a = 5", None, "N"),
    ("1 = 1.", None, "T"),
    ("9007199254740993 = 9007199254740992e0", None, "T"),  # a Long beside a Double loses digits
    ("- 5 < a", "-4", "T"),
    ("+a > 5", "6", "T"),
    ("-a > 5", "-6", "N"),  # no property is a number
    ("- - 5 = a", "5", "T"),
]
DOUBLES: list[Row] = [
    ("a > 5.5", "6", "T"),
    ("a > 5.5", " 5.75\t", "T"),
    ("a > 5.5", "6d", "T"),
    ("a > 5.5", "6F", "T"),
    ("a = 8.0", "0x1p3", "T"),
    ("a > 8.0", "0x1p99999", "T"),
    ("a < 8.0", "-0x1p99999", "T"),
    ("a = 8.0", "0x8", "E"),  # without an exponent
    ("a > 1e300", "Infinity", "T"),
    ("a > 1e300", "inf", "E"),
    ("a > 1e300", "NaN", "T"),  # above everything
    ("a <= 1e300", "NaN", "F"),
    ("a > 1e300", "nan", "E"),
    ("a > 1e300", "1e999", "T"),
    ("a = .5", "5e-1", "T"),
    ("a = 5.E1", "50", "T"),
    ("a >= b", "-0.0", "F"),  # b is 0
    ("a > c", "5.5", "T"),  # c is 5: two properties are doubles
    ("a > c", "x", "E"),
    ("a < nothing", "x", "N"),
]
TEXTS: list[Row] = [
    ("a = 'x'", "x", "T"),
    ("a = 'x'", "X", "F"),
    ("a = 'x'", None, "N"),
    ("'x' = a", None, "F"),
    ("a <> 'x'", "y", "T"),
    ("a <> 'x'", None, "N"),
    ("a = nothing", None, "T"),  # both are null
    ("a = nothing", "x", "F"),
    ("a = 'it''s'", "it's", "T"),
    ("a = ''", "", "T"),
    ("a IN ('x', 'y')", "y", "T"),
    ("a NOT IN ('x', 'y')", "y", "F"),
    ("a NOT IN ('x')", "z", "T"),
    ("a IN ('x')", None, "N"),
    ("a NOT IN ('x')", None, "N"),
    ("a CONTAINS 'ed'", "red", "T"),
    ("a NOT CONTAINS 'ed'", "red", "F"),
    ("a STARTSWITH 're'", "red", "T"),
    ("a NOT STARTSWITH 're'", "blue", "T"),
    ("a ENDSWITH 'ed'", "red", "T"),
    ("a NOT ENDSWITH 'ed'", "blue", "T"),
    ("a NOT CONTAINS 'x'", None, "F"),
    ("a CONTAINS ''", "x", "F"),
    ("a NOT CONTAINS ''", "x", "F"),
    ("(a > 5) CONTAINS ''", "x", "F"),  # is not looked at
    ("(a > 5) NOT CONTAINS '5'", "6", "F"),
    ("5 CONTAINS '5'", None, "F"),
]
LOGIC: list[Row] = [
    ("a IS NULL", None, "T"),
    ("a IS NULL", "x", "F"),
    ("a IS NOT NULL", "x", "T"),
    ("a IS NOT NULL", None, "F"),
    ("a is not null and A IS NULL", "x", "T"),  # case matters in names alone
    ("(a = 5) IS NULL", None, "T"),
    ("a = 5 AND c = 5", None, "N"),
    ("a = 5 AND c = 6", None, "F"),
    ("a = 5 OR c = 5", None, "T"),
    ("a = 5 OR c = 6", None, "N"),
    ("NOT (a = 5)", None, "N"),
    ("NOT (a = 5)", "6", "T"),
    ("NOT a = 5", "6", "F"),  # compares NOT a
    ("c = 5 OR c = 6 AND a = 5", None, "T"),
    ("a > 5 OR c = 5", "x", "E"),  # evaluated from the left
    ("c = 5 OR a > 5", "x", "T"),
    ("c = 6 AND a > 5", "x", "F"),
    ("a > 5 AND c = 6", "x", "E"),
    ("NOT (a > 5)", "x", "E"),
    ("a", "true", "F"),  # no property is a boolean
    ("a", None, "N"),
    ("NOT a", "true", "T"),
    ("TRUE", None, "T"),
    ("FALSE OR NULL", None, "N"),
    ("a = TRUE", "TrUe", "T"),
    ("a = TRUE", "yes", "F"),
    ("a <> FALSE", "true", "T"),
    ("TRUE = a", "true", "E"),  # RocketMQ casts the wrong side
    ("TRUE = a", None, "F"),
    ("1 = TRUE", None, "F"),
    ("(a = 5) = TRUE", "5", "T"),
    ("a = 'x' = TRUE", "x", "T"),
    ("a BETWEEN 1 AND 5", "5", "T"),
    ("a BETWEEN 1 AND 5", "6", "F"),
    ("a BETWEEN 1 AND 5", None, "N"),
    ("a NOT BETWEEN 1 AND 5", "6", "T"),
    ("a NOT BETWEEN 5 AND 1", "3", "T"),
    ("a BETWEEN -1 AND -5", "3", "F"),  # signs are not looked at beforehand
    ("c BETWEEN a AND 9", "3", "T"),
]
WORDS: list[Row] = [
    ("a\t>\n5\r\f", "6", "T"),
    ("a/* > 7 **/> 5", "6", "T"),
    ("a -- > 7\n> 5 --\r", "6", "T"),
    ("a>-5", "6", "T"),
    ("a=5oR(5)=a", "5", "T"),
    ("$_a1 IS NULL", "x", "T"),
    ("a='x''y'", "x'y", "T"),
    ("a = 'ä🚀\n'", "ä🚀\n", "T"),
]

VECTORS = [*NUMBERS, *DOUBLES, *TEXTS, *LOGIC, *WORDS]


def message_of(row: Row) -> dict[str, str]:
    return {"b": "0", "c": "5"} | ({} if row[1] is None else {"a": row[1]})
