"""Puts the parts together; the only package that names the concrete ones."""

from sereno.app.opening import Seams, backup_database, contracts_of, open_app, open_sereno, restore_database
from sereno.app.running import Sereno
from sereno.outside.secret import without_secrets

__all__ = ["Seams", "Sereno", "backup_database", "contracts_of", "open_app", "open_sereno", "restore_database", "without_secrets"]
