"""Credentials by name: resolved for their origin alone, never printed; literal secrets are found before they are stored."""

import copy
import json
import pickle
from pathlib import Path

import pytest

from sereno.outside.credentials import Credentials, Unusable, check_credential, check_place
from sereno.outside.redaction import Redaction
from sereno.outside.secret import MASK, Secret, looks_like_secret, named_like_secret, secrets_in_url
from sereno.ports import CredentialConfig, SecretPlace

ORIGIN = "https://api.example.com"
VALUE = "canary-0123456789"


def one(config: CredentialConfig, **environment: str) -> Credentials:
    """Credentials with one entry named `k`."""
    return Credentials({"k": config}, Redaction(), environment)


def test_a_secret_does_not_show_itself() -> None:
    """str, repr, format, %, containers, copies, JSON and pickle hold the mask or fail; reveal gives the value."""
    secret = Secret(VALUE)
    shown = [
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret:>20}",
        "{}".format(secret),  # noqa: UP032
        repr([secret]),
        repr({"a": secret}),
    ]
    assert all(VALUE not in text for text in shown) and shown[0] == MASK
    assert copy.deepcopy(secret) is secret and copy.copy(secret) is secret
    with pytest.raises(TypeError):
        json.dumps(secret)
    with pytest.raises(TypeError) as caught:
        pickle.dumps(secret)
    assert VALUE not in str(caught.value) and not hasattr(secret, "__dict__")
    assert secret.reveal() == VALUE and secret == Secret(VALUE) and secret != Secret("other") and secret != VALUE


def test_W25_a_variable_is_read_at_each_use_and_for_its_origin_alone() -> None:
    """Rotation needs no restart; another origin, scheme or port gets nothing."""
    environment = {"TOKEN": VALUE}
    credentials = Credentials({"k": CredentialConfig(ORIGIN, SecretPlace(env="TOKEN"))}, Redaction(), environment)
    header = credentials.header("k", ORIGIN)
    assert (header.name, header.value.reveal()) == ("Authorization", f"Bearer {VALUE}")
    assert VALUE not in repr(header) and VALUE not in repr(credentials.__dict__.get("_configs"))
    environment["TOKEN"] = "rotated-9876543"
    assert credentials.header("k", ORIGIN).value.reveal() == "Bearer rotated-9876543"
    for other in (
        "http://api.example.com",
        "https://api.example.com:8443",
        "https://evil.example",
        "https://api.example.com.evil.example",
    ):
        with pytest.raises(Unusable, match="bound to") as caught:
            credentials.header("k", other)
        assert "rotated" not in str(caught.value)
    assert (
        credentials.bound_to("k", ORIGIN)
        and not credentials.bound_to("k", "https://evil.example")
        and credentials.names() == ["k"]
    )


def test_a_file_is_read_at_each_use(tmp_path: Path) -> None:
    """One trailing line end is dropped; inner space stays."""
    path = tmp_path / "token"
    path.write_text("abc def 123\r\n")
    credentials = one(CredentialConfig(ORIGIN, SecretPlace(file=str(path)), header="X-Api-Key", scheme=""))
    assert credentials.header("k", ORIGIN).value.reveal() == "abc def 123"
    path.write_text("second-value")
    assert credentials.header("k", ORIGIN).value.reveal() == "second-value"


def test_basic_authentication_is_encoded_and_each_part_is_known_to_the_redaction() -> None:
    """`user:password` becomes the RFC 7617 value; password and encoded pair are redacted too."""
    redaction = Redaction()
    config = CredentialConfig(ORIGIN, SecretPlace(env="PAIR"), scheme="Basic")
    credentials = Credentials({"k": config}, redaction, {"PAIR": "Aladdin:open sesame"})
    assert credentials.header("k", ORIGIN).value.reveal() == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    assert redaction.redact("open sesame / QWxhZGRpbjpvcGVuIHNlc2FtZQ==") == f"{MASK} / {MASK}"


@pytest.mark.parametrize(
    ("place", "environment", "why"),
    [
        (SecretPlace(env="NOPE"), {}, "NOPE is not set"),
        (SecretPlace(env="K"), {"K": ""}, "shorter than"),
        (SecretPlace(env="K"), {"K": "abc"}, "shorter than"),
        (SecretPlace(env="K"), {"K": "secret\r\nX-Evil: 1"}, "cannot carry"),
        (SecretPlace(env="K"), {"K": "sécrét-value"}, "cannot carry"),
        (SecretPlace(file="/nonexistent/x"), {}, "cannot be read"),
        (SecretPlace(file="/dev/zero"), {}, "longer than"),
    ],
)
def test_a_value_that_cannot_be_used_is_said_without_repeating_it(
    place: SecretPlace, environment: dict[str, str], why: str
) -> None:
    """Missing, empty, short, not a header value, unreadable, endless."""
    with pytest.raises(Unusable, match=why) as caught:
        one(CredentialConfig(ORIGIN, place), **environment).header("k", ORIGIN)
    assert "crét" not in str(caught.value) and "secret" not in str(caught.value)


def test_an_unknown_name_is_said() -> None:
    """The message names the credential that was asked for."""
    with pytest.raises(Unusable, match="'other'"):
        one(CredentialConfig(ORIGIN, SecretPlace(env="K"))).header("other", ORIGIN)


@pytest.mark.parametrize(
    ("config", "where"),
    [
        (CredentialConfig("https://api.example.com/v1", SecretPlace(env="K")), "c.origin"),
        (CredentialConfig("https://user:pw@api.example.com", SecretPlace(env="K")), "c.origin"),
        (CredentialConfig("http://api.example.com", SecretPlace(env="K")), "c.origin"),
        (CredentialConfig(ORIGIN, SecretPlace(env="K"), header="X Bad"), "c.header"),
        (CredentialConfig(ORIGIN, SecretPlace(env="K"), scheme="Bearer ghp_abcdefghijklmnopqrstuv"), "c.scheme"),
        (CredentialConfig(ORIGIN, SecretPlace()), "c.value"),
        (CredentialConfig(ORIGIN, SecretPlace(env="K", file="/x")), "c.value"),
        (CredentialConfig(ORIGIN, SecretPlace(env="ghp_abcdefghijklmnopqrstuv")), "c.value"),
        (CredentialConfig(ORIGIN, SecretPlace(env="not a name")), "c.value.env"),
    ],
)
def test_faults_of_a_table_are_listed_with_their_place(config: CredentialConfig, where: str) -> None:
    """Each fault names the key; none repeats a secret."""
    faults = check_credential("k", config, "c")
    assert [fault.where for fault in faults] == [where]
    assert "ghp_abc" not in str(faults[0]) and "pw@" not in str(faults[0])


def test_good_tables_have_no_fault() -> None:
    """https anywhere; http on loopback alone."""
    for origin in (ORIGIN, "https://api.example.com:8443", "http://127.0.0.1:9000", "http://localhost:1", "http://[::1]:1"):
        assert not check_credential("k", CredentialConfig(origin, SecretPlace(env="K")), "c")
    assert not check_place(SecretPlace(file="/run/credentials/x"), "v")


SECRETS = (
    "sk-abcdefghijklmnop1234",
    "sk-proj-abcdefghijkl_mnop-1234",
    "sk_live_abcdefghijklmnop",
    "ghp_abcdefghijklmnopqrst1234",
    "github_pat_11ABCDEFG0abcdefghijkl",
    "xoxb-1234567890-abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA-abcdefghijklmnopqrstuvwxyz12345",
    "r8_abcdefghijklmnopqrstuvwx",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc",
    "-----BEGIN RSA PRIVATE KEY-----\nabc",
    "Bearer abcdefgh12345",
    "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
)


@pytest.mark.parametrize("text", SECRETS)
def test_literal_secrets_are_recognised(text: str) -> None:
    """Published prefixes, private keys and Authorization values; the reason does not repeat the value."""
    why = looks_like_secret(text)
    assert why and text not in why
    assert looks_like_secret(f"prefix {text.splitlines()[0]} suffix") or text.startswith(("Bearer", "Basic"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello world",
        "Bearer",
        "basic",
        "https://example.com/a",
        "risk-assessment-of-everything",
        "task-12345",
        "Bearer ${TOKEN}",
    ],
)
def test_ordinary_texts_are_not_called_secrets(text: str) -> None:
    """Words that merely resemble."""
    assert looks_like_secret(text) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://user:pw@example.com/",
        "https://user@example.com/",
        "https://example.com/?token=abcdefgh",
        "https://example.com/?a=1&api_key=abcdefgh12",
        "https://example.com/?apiKey=abcdefgh12",
        "https://example.com/?X-Amz-Signature=abcdefgh12",
        "https://example.com/?sig=abcdefgh12",
        "https://example.com/?sv=1&se=2&password=hunter2hunter2",
        "https://example.com/?q=sk-abcdefghijklmnop1234",
        "https://example.com/#access_token=abcdefgh12",
        "https://example.com/hooks/xoxb-1234567890-abcdefghij",
    ],
)
def test_secrets_in_urls_are_found(url: str) -> None:
    """Userinfo, telling parameters, known prefixes; the words do not repeat the value."""
    found = secrets_in_url(url)
    assert found and "abcdefgh" not in " ".join(found) and "hunter2" not in " ".join(found)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/?q=token&page=2",
        "https://example.com/?key=name",
        "https://example.com/tokens/1?monkey=banana12345",
        "https://example.com/?token={token}",
        "http://[bad",
    ],
)
def test_ordinary_urls_hold_no_secret(url: str) -> None:
    """Short values, other names, placeholders."""
    assert not secrets_in_url(url)


def test_names_under_which_secrets_travel() -> None:
    """Any case and joint; not words that merely contain one."""
    assert all(map(named_like_secret, ("api_key", "X-Api-Key", "accessToken", "SECRET", "client-secret", "sig", "password")))
    assert not any(map(named_like_secret, ("monkey", "signal", "tokens", "passenger", "keyboard", "design")))
