"""`flightlog demo`: put orders, kill the writer, show that nothing is lost, and read everything with Spark.

The two stages use the same folder. `store_stage` needs only the core, `spark_stage` needs the extra `spark`. Each is a
program: `python -m flightlog.tools.demo.store_stage FOLDER`, then `python -m flightlog.tools.demo.spark_stage FOLDER`.
"""
