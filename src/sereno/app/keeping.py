"""Puts together what keeps results: the store that the settings name, and the action that copies into it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from sereno.builtin.actions.keep_result import KeepResultAction
from sereno.core.contract import Contract
from sereno.core.errors import Fault, SetupError
from sereno.core.values import Json
from sereno.outside.artifacts.files import FileArtifacts
from sereno.ports import ArtifactStore, Plugins, Transport
from sereno.settings import Loaded

FOLDER = "artifacts"
"""Beside the database."""


def artifacts_folder(loaded: Loaded) -> Path:
    """The folder of kept results; with S3 the one where they wait to be sent."""
    named = loaded.settings.artifacts.folder
    if named is None:
        return loaded.database.parent / FOLDER
    start = loaded.path.parent if loaded.path is not None else Path.cwd()
    return (start / Path(named).expanduser()).resolve()


def build_artifacts(loaded: Loaded, transport: Transport) -> ArtifactStore:
    """The store that `[artifacts]` names. Nothing is made or asked before the first result."""
    files = FileArtifacts(artifacts_folder(loaded))
    s3 = loaded.settings.artifacts.s3
    if s3 is None:
        return files
    try:
        from sereno.outside.artifacts.s3 import Bucket, S3Artifacts  # noqa: PLC0415 - needs the extra `aws`
    except ImportError as error:
        fault = Fault(loaded.where("artifacts", "s3"), "needs the extra `aws`", 'install "sereno[aws]"')
        raise SetupError("the settings are not right; nothing was started", [fault]) from error
    return S3Artifacts(transport, Bucket(**dict(s3)), files)


def with_kept_results(
    plugins: Plugins, pinned: Callable[[str], Awaitable[Mapping[str, Json]]], artifacts: ArtifactStore
) -> Plugins:
    """The plug-ins and the action that copies results; `pinned` reads a stored contract document by its digest."""

    async def contract_of(digest: str) -> Contract:
        return plugins.contracts.contract(await pinned(digest))

    action = KeepResultAction(plugins.providers, contract_of, artifacts)
    return replace(plugins, actions={**plugins.actions, action.type: action})
