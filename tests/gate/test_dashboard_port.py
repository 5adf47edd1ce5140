"""The second port of the dashboard: off by default, and the same pages where it is on."""

from __future__ import annotations

import http.client
import json

from tests.gate.test_kept import HttpHold
from tests.harness import wait_for
from tests.scenarios.test_tcp import free_port


def page(port: int, path: str, host: str = "") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_second_port_serves_the_same() -> None:
    """Health and login page at both ports; login links lead to it; a reload takes it away."""
    with HttpHold() as hold:
        second = free_port()
        services = {"web": {"command": ["sleep", "1000"], "start_seconds": 0}}
        settings = {"http_port": hold.port, "services": services}
        hold.write({**settings, "dashboard": {"port": second}})
        hold.up()
        assert hold.http()["services"]
        assert hold.status()["supervisor"]["doors"]["dashboard"] == f"http://127.0.0.1:{second}"
        for port in (hold.port, second):
            status, body = page(port, "/health")
            assert (status, json.loads(body)["status"]) == (200, "ok")
            assert page(port, "/login")[0] == 200
        assert page(second, "/health", host=f"evil.example:{second}")[0] == 403
        assert f":{second}/login#" in hold.ask("create_login")["url"]
        hold.write(settings)
        hold.ask("reload")

        def is_closed() -> bool:
            try:
                page(second, "/health")
            except OSError:
                return True
            return False

        wait_for(is_closed, what="the second port to be closed")
        assert "dashboard" not in hold.status()["supervisor"]["doors"]
        assert hold.http()["services"]


def test_a_taken_port_is_told() -> None:
    """Everything goes on at the first port, and the status says why the second is closed."""
    with HttpHold() as hold:
        services = {"web": {"command": ["sleep", "1000"], "start_seconds": 0}}
        config = {"http_port": hold.port, "services": services, "dashboard": {"port": hold.port}}
        hold.write(config)
        hold.up()
        assert hold.http()["services"]
        assert "in use" in hold.status()["supervisor"]["door_notes"]["dashboard"]
