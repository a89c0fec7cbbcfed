"""What a deployment may set: one TOML file, read whole, every fault reported at once with file and line."""

from sereno.settings.config import Settings, config_schema
from sereno.settings.definition import PollModel, poll_to_model
from sereno.settings.load import Loaded, find_config, load_settings, parse_settings

__all__ = ["Loaded", "PollModel", "Settings", "config_schema", "find_config", "load_settings", "parse_settings", "poll_to_model"]
