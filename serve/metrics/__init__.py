"""What a server tells those who watch it: `/metrics`, `/health` and `/ready` by HTTP.

endpoint ──> store_metrics ──> watched ──> traffic

Servers write `traffic`. `endpoint` and `store_metrics` need the library prometheus_client and are imported on request
alone.
"""
