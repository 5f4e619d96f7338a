"""Messages as text and columns: what `cat` and `export` write, one form a file.

Which form a message takes in each:

    fields       ──> the names and values that every form has
    text_forms   ──> one line each: for people, JSON, CSV, bodies alone
    parquet      ──> Arrow columns, with pyarrow
    hex_dump     ──> the bytes of a record, field by field
    output_file  ──> stdout, or a file that is there when it is whole
"""
