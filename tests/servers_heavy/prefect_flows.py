"""Three flows and their runner, for a Prefect server: one ends well, one fails, one goes on until it is cancelled."""

import time

from prefect import flow, serve


@flow
def good() -> str:
    """Ends well."""
    return "here it is"


@flow
def bad() -> None:
    """Fails."""
    raise RuntimeError("out of paper")


@flow
def long() -> None:
    """Goes on."""
    time.sleep(600)


if __name__ == "__main__":
    serve(*(one.to_deployment(one.name) for one in (good, bad, long)))
