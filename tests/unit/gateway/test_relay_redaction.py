"""Secrets do not get through, in whatever dress they come."""

import base64
import json
from urllib.parse import quote

import pytest

from sregym.gateway.relay.events import EventSplitter, value_of
from sregym.gateway.relay.log import MOST_OF_A_BODY, Kept
from sregym.gateway.relay.redaction import GONE, Redactor

KEY = "sk-ant-api03-Very/Secret+Key=0123456789"
TOKEN = "q8Fv-token_of.the~attempt"
REDACTOR = Redactor([KEY, TOKEN, "short"])


def events(*texts: str, path: str = "content") -> bytes:
    return b"".join(b"data: " + json.dumps({"choices": [{"delta": {path: text}}]}).encode() + b"\n\n" for text in texts)


@pytest.mark.parametrize(
    "dressed",
    [
        KEY,
        quote(KEY, safe=""),
        KEY.replace("/", "\\/"),
        json.dumps(f'say "{KEY}"'),
        base64.b64encode(KEY.encode()).decode(),
        base64.urlsafe_b64encode(KEY.encode()).decode(),
        "".join(f"\\u{ord(letter):04x}" for letter in KEY),
        "\\u0073" + KEY[1:],
        TOKEN,
        f"http://gateway/t/{TOKEN}/v1/messages",
    ],
)
def test_planted_secrets_are_found(dressed: str) -> None:
    text = f'{{"a": "before {dressed} after"}}'
    for cleaned in (REDACTOR.clean(text.encode()).decode(), REDACTOR.record(text.encode())):
        assert GONE in cleaned
        assert dressed not in cleaned
        assert KEY[8:24] not in cleaned
        assert "before" in cleaned
        assert "after" in cleaned


def test_what_holds_no_secret_is_left_as_it_is() -> None:
    for data in (b"", b"short", b'{"a": "\\u0041\\u00e4 sk-ant"}', b"\xff\x00", KEY[:-1].encode()):
        assert REDACTOR.clean(data) is data or REDACTOR.clean(data) == data


@pytest.mark.parametrize(
    "text",
    [
        "sk-proj-abcdefghijklmnopqrstuvwxyz",
        "AIzaSyA-123456789012345678901234567890",
        "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30.abc",
        "authorization: basic dXNlcjpwYXNzd29yZA==",
        "AKIAABCDEFGHIJKLMNOP",
        "ghp_abcdefghijklmnop0123",
        "/v1beta/models/m:generateContent?key=abcdefgh12345",
        "sk-ant-another-one-of-the-same-kind",
        "/t/abcdefghijklmnopqrst/v1/messages",
    ],
)
def test_what_looks_like_a_key_is_not_written_down(text: str) -> None:
    assert GONE in REDACTOR.record(text.encode())
    assert Redactor([]).clean(text.encode()) == text.encode()


@pytest.mark.parametrize("cut", [1, 5, 12, len(KEY) - 1])
def test_a_key_that_comes_in_pieces_of_a_stream_is_not_written_down(cut: int) -> None:
    stream = events("the key: ", KEY[:cut], KEY[cut:], " indeed")
    kept = REDACTOR.record(stream)
    assert "".join(kept.split('"')).count(KEY[2:cut]) == 0 or cut < 5
    assert KEY[cut : cut + 12] not in kept or len(KEY) - cut < 2
    spoken = "".join(
        value["choices"][0]["delta"]["content"] for value in map(value_of, EventSplitter().feed(kept.encode())) if value
    )
    assert KEY not in spoken


def test_one_letter_an_event() -> None:
    kept = REDACTOR.record(events(*KEY))
    assert kept.count(GONE) == len(KEY)


def test_streams_of_different_fields_are_not_mixed_up() -> None:
    stream = events("harmless ", "text", path="reasoning")
    assert REDACTOR.record(stream) == stream.decode()


def test_a_cut_leaves_no_half_of_a_secret() -> None:
    kept = Kept()
    kept.add(b"x" * (MOST_OF_A_BODY - 10) + KEY.encode() + b"y" * 100)
    text = kept.text(REDACTOR)
    assert KEY[:10] not in text
    assert text.endswith("bytes more")


def test_a_redactor_without_secrets_changes_nothing() -> None:
    assert Redactor(["", "tiny"]).clean(b"tiny") == b"tiny"
