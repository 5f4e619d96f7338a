"""What a server tells those who watch it: `/metrics`, `/health` and `/ready` by HTTP.

endpoint ──> store_metrics ──> traffic

Servers write `traffic`. The other two need the library prometheus_client and are imported on request alone.
"""
