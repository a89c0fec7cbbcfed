"""The egress gate: every outgoing HTTP request of Sereno passes here. Start reading at `gate.py`."""
