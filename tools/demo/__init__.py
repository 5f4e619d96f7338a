"""`flightlog demo`: orders are put, their writer is killed, nothing is lost, Spark reads it all.

Two stages over one folder: `store_stage` needs the core alone, `spark_stage` the extra `spark`.
Each is a program of its own:
`python -m flightlog.tools.demo.store_stage FOLDER`, then `python -m flightlog.tools.demo.spark_stage FOLDER`.
"""
