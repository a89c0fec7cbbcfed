"""The child process of `notify`: reads one JSON document on standard input, notifies by Apprise, and says by its exit status how it went."""

import json
import logging
import sys

EXIT_BAD_TARGET, EXIT_NO_APPRISE, EXIT_NOT_TAKEN = 64, 69, 75


def main() -> int:
    """Notifies once: 0 taken, 64 unknown kind of target, 69 Apprise is missing, 75 not taken."""
    asked = json.load(sys.stdin)
    logging.disable(logging.CRITICAL)  # Apprise logs URLs, which are secrets
    try:
        import apprise  # noqa: PLC0415 - declared optional extra `notify`
    except ImportError:
        return EXIT_NO_APPRISE
    notifier = apprise.Apprise()
    if not notifier.add(asked["url"]):
        return EXIT_BAD_TARGET
    taken = notifier.notify(title=asked["title"], body=asked["body"], body_format=apprise.NotifyFormat.TEXT)
    return 0 if taken else EXIT_NOT_TAKEN


if __name__ == "__main__":
    sys.exit(main())
