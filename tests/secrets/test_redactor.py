"""Secrets in bytes are found by shape, name and value; what is masked keeps its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.secrets import private_keys
from holdfast.secrets.redaction import HIDDEN, Redactor

VALUES = [f"value-{number}-of-Many" for number in range(100)]
TEXTS = st.lists(
    st.sampled_from(
        ["hunter2-secret", "password=", "token: ", "ghp_" + "a" * 30, "\n", " ", "x", "€", "key='"]
    )
    | st.text(max_size=6),
    max_size=30,
).map(lambda parts: "".join(parts).encode("utf-8", "ignore"))


@given(TEXTS)
def test_covering_moves_nothing(data: bytes) -> None:
    """As many bytes as before, and every line end where it was."""
    masked = Redactor(["hunter2-secret"]).mask(data)
    assert len(masked) == len(data)
    assert masked.count(b"\n") == data.count(b"\n")
    assert b"hunter2-secret" not in masked


@given(TEXTS, st.integers(0, 99), TEXTS)
def test_one_of_many_values(before: bytes, number: int, after: bytes) -> None:
    """Many values are sought in one pass."""
    value = VALUES[number].encode()
    assert value not in Redactor(VALUES).mask(before + value + after)


@given(st.lists(TEXTS.map(lambda data: data.replace(b"\n", b"")), max_size=20))
def test_lines_stay_lines(lines: list[bytes]) -> None:
    """However many are looked at together, each comes out as its own."""
    redactor = Redactor(["hunter2-secret"])
    shown = redactor.redact_lines(b"\n".join(lines)).split(b"\n") if lines else []
    assert len(shown) == len(lines)
    for line, data in zip(shown, lines, strict=True):
        if redactor.redact(data) == data:
            assert line == data


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b'{"password": "a b c", "x": 1}', b'{"password": "[hidden]", "x": 1}'),
        (rb'{"e":"{\"token\":\"abcdefgh\"}"}', rb'{"e":"{\"token\":\"[hidden]\"}"}'),
        (b"\x1b[36mtoken=\x1b[0mabcdefgh12\x1b[0m!", b"\x1b[36mtoken=\x1b[0m[hidden]\x1b[0m!"),
        (b"secretKey=abcdefghij", b"secretKey=[hidden]"),
        (b'password="unfinished word', b'password="[hidden] word'),
        (b"https://u:p@ss@h/x", b"https://u:[hidden]@h/x"),
        (b"git clone https://0123456789abcdef01234567@git.example/x", None),
        (b"Basic dXNlcjpwYXNzd29yZA==", b"Basic [hidden]"),
        (b"${SUPERVISOR_TOKEN:-hunter2}", b"${SUPERVISOR_TOKEN:[hidden]}"),
        (b"${API_TOKEN:-default-7}", b"${API_TOKEN:[hidden]}"),
        (b"password=${HALF}hunter2", b"password=[hidden]"),
        (b'password: "${HALF} hunter2"', b'password: "[hidden]"'),
        (b"password='${HALF}hunter2'", b"password='[hidden]'"),
        (rb'{"password": "${HALF}\"hunter2"}', b'{"password": "[hidden]"}'),
    ],
)
def test_where_secrets_stand(line: bytes, shown: bytes | None) -> None:
    """In JSON, in JSON within JSON, between colours, in addresses."""
    found = Redactor().redact_lines(line)
    assert found == shown if shown is not None else HIDDEN.encode() in found


@pytest.mark.parametrize(
    "line",
    [
        b"basic configuration loaded",
        b"bearer authentication is on",
        b"15 tokens: done in 3 s",
        b"see https://example.com/a:b@c",
        b"\x1b[31mred\x1b[0m text",
        b"0123456789abcdef0123456789abcdef01234567 HEAD",
        b"set it, or write ${SUPERVISOR_TOKEN:-default}",
        "write ${API_TOKEN:-…}, ${API_TOKEN:-} or ${API_TOKEN:?}".encode(),
        b"in env: PASSWORD=${PASSWORD}, token: '${OTHER_TOKEN}'",
        b'{"password": "${DB_PASSWORD}"}',
        rb'{"e":"{\"token\":\"${TOKEN}\"}"}',
    ],
)
def test_what_is_no_secret(line: bytes) -> None:
    """Plain lines of logs stay as they are."""
    assert Redactor().mask(line) == line


@pytest.mark.parametrize(
    ("line", "is_shown"),
    [
        (b"PWD=/srv/app\nOLDPWD=/srv\nHOME=/root", True),
        (b"declare -x OLDPWD='/srv/my app'", True),
        (b'{"PWD": "/srv/app", "x": 1}', True),
        (rb'{"e":"{\"PWD\":\"/srv\"}"}', True),
        (b"DB_PWD=/srv/app", False),
        (b"DB-PWD=/srv/app", False),
        (b"MYOLDPWD=/srv/app", False),
        (b"pwd=/srv/app", False),
        (b"pwd=hunter2", False),
        (b"PWD=hunter2", False),
        (b"UID=sa;PWD=/srv/app", False),
        (b"UID=sa; PWD=/srv/app", False),
        (b"PWD_2=/srv/app", False),
    ],
)
def test_a_working_folder_is_no_secret(line: bytes, is_shown: bool) -> None:
    """PWD and OLDPWD are shown where they name a folder; other names that end so are hidden."""
    assert (Redactor().redact(line) == line) is is_shown


def test_a_private_key_is_hidden_line_by_line() -> None:
    """Over several lines, and also if its end never comes."""
    key = b"-----BEGIN RSA PRIVATE KEY-----\nMIIEow0BAAKCAQEA\nabcdefgh\n"
    for text in (key, key + b"-----END RSA PRIVATE KEY-----\nnext: line"):
        masked = Redactor().mask(text)
        assert b"MII" not in masked
        assert b"abcdefgh" not in masked
        assert masked.count(b"\n") == text.count(b"\n")
    assert private_keys.open_at(key, len(key))[1] is not None
    ended = key + b"-----END RSA PRIVATE KEY-----"
    assert private_keys.open_at(ended, len(ended)) == (len(ended), None)


def test_in_a_terminal_only_what_is_known_for_sure() -> None:
    """What is typed behind `password=` is on the screen; a token and a value are not."""
    redactor = Redactor(["configured-value"])
    text = b"password=typed configured-value ghp_" + b"a1" * 20
    masked = redactor.mask(text, is_terminal=True)
    assert b"password=typed " in masked
    assert b"configured" not in masked
    assert b"ghp_a1" not in masked


def test_the_beginning_of_a_value() -> None:
    """What may become one when more is printed."""
    redactor = Redactor(["hunter2-secret", "hunting"])
    assert redactor.unfinished_value(b"say hunt") == 4
    assert redactor.unfinished_value(b"say hunter2-sec") == 11
    assert redactor.unfinished_value(b"hunter2-secret") == 0
    assert redactor.unfinished_value(b"say hu") == 0
