"""A key of HTTP: a request that is sent again is done once."""

from __future__ import annotations

import http.client
import json
from typing import Any

from tests.gate.conftest import Gate


def post(gate: Gate, path: str, body: dict[str, Any], key: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", gate.port, timeout=60)
    headers = {
        "Authorization": f"Bearer {gate.token}",
        "Content-Type": "application/json",
        "Idempotency-Key": key,
    }
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    found: dict[str, Any] = json.loads(answer.read())
    connection.close()
    return found


def test_a_request_under_a_key_is_done_once(gate: Gate) -> None:
    """`Idempotency-Key` becomes the key of the command; another key is another restart."""
    name = next(iter(gate.hold.status()["services"]))
    path, body = "/api/services/restart", {"services": [name]}
    first = post(gate, path, body, "one")
    assert post(gate, path, body, "one") == first
    assert post(gate, path, body, "two")["services"][name]["pid"] != first["services"][name]["pid"]
