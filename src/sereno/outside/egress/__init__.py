"""The egress gate: every outgoing HTTP request of Sereno passes here."""

from sereno.outside.egress.allow import Allow
from sereno.outside.egress.gate import Gate, Seams
from sereno.outside.egress.limits import GateLimits
from sereno.outside.egress.url import BadUrl, Target, parse_origin, parse_url

__all__ = ["Allow", "BadUrl", "Gate", "GateLimits", "Seams", "Target", "parse_origin", "parse_url"]
