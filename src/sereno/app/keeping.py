"""Puts together what keeps results: the store that the settings name, and the action that copies into it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from sereno.builtin.actions.keep_result import KeepResultAction
from sereno.core.contract import Contract
from sereno.core.errors import Fault, SetupError, did_you_mean
from sereno.core.reading.address import origin_or_none
from sereno.core.values import Json
from sereno.outside.artifacts.files import FileArtifacts
from sereno.ports import ArtifactStore, Plugins, Transport
from sereno.settings import Loaded
from sereno.settings.config import S3Model

FOLDER = "artifacts"
"""Beside the database."""
SCHEME = "AWS4-HMAC-SHA256"


def artifacts_folder(loaded: Loaded) -> Path:
    """The folder of kept results; with S3 the one where they wait to be sent."""
    named = loaded.settings.artifacts.folder
    if named is None:
        return loaded.database.parent / FOLDER
    start = loaded.path.parent if loaded.path is not None else Path.cwd()
    return (start / Path(named).expanduser()).resolve()


def build_artifacts(loaded: Loaded, transport: Transport) -> ArtifactStore:
    """The store that `[artifacts]` names. Nothing is made or asked before the first result. Raises SetupError."""
    files = FileArtifacts(artifacts_folder(loaded))
    s3 = loaded.settings.artifacts.s3
    if s3 is None:
        return files
    _check(loaded, s3)
    try:
        from sereno.outside.artifacts.s3 import Bucket, S3Artifacts  # noqa: PLC0415 - needs the extra `aws`
    except ImportError as error:
        raise _wrong(Fault(loaded.where("artifacts", "s3"), "needs the extra `aws`", 'install "sereno[aws]"')) from error
    return S3Artifacts(transport, Bucket(**dict(s3)), files)


def _check(loaded: Loaded, s3: S3Model) -> None:
    """Refuses what would fail at the first result: an endpoint with a path, a key that is not there or belongs elsewhere."""
    if origin_or_none(s3.endpoint) != s3.endpoint.rstrip("/"):
        says = "`endpoint` must be https://host[:port] in lower case, without path"
        raise _wrong(Fault(loaded.where("artifacts", "s3", "endpoint"), says))
    model = loaded.settings.credentials.get(s3.credential)
    place = loaded.where("artifacts", "s3", "credential")
    if model is None:
        near = did_you_mean(s3.credential, loaded.settings.credentials) or f"add [credentials.{s3.credential}]"
        raise _wrong(Fault(place, f"there is no credential named `{s3.credential}`", near))
    if model.origin.rstrip("/") != s3.endpoint.rstrip("/") or (model.scheme or "").upper() != SCHEME:
        says = f"the credential `{s3.credential}` does not sign for {s3.endpoint}"
        raise _wrong(Fault(place, says, f'give it that origin, and scheme = "{SCHEME}"'))


def _wrong(fault: Fault) -> SetupError:
    return SetupError("the settings are not right; nothing was started", [fault])


def with_kept_results(
    plugins: Plugins, pinned: Callable[[str], Awaitable[Mapping[str, Json]]], artifacts: ArtifactStore, longest: timedelta
) -> Plugins:
    """The plug-ins and the action that copies results; `pinned` reads a stored contract document by its digest."""

    async def contract_of(digest: str) -> Contract:
        return plugins.contracts.contract(await pinned(digest))

    action = KeepResultAction(plugins.providers, contract_of, artifacts, longest)
    return replace(plugins, actions={**plugins.actions, action.type: action})
