"""What Holdfast runs for itself, beside the user's services; with real processes."""

from __future__ import annotations

import signal

from tests.cli.test_foreground import Front
from tests.harness import Hold, wait_for


def test_what_holdfast_runs_for_itself_is_shown_to_who_asks() -> None:
    """The gate is no service of the user's: `up`, `logs` and `down` speak of it by name only."""
    with Hold(HOLDFAST_HTTP="on", HOLDFAST_HTTP_PORT="0") as hold:
        hold.services(web=["sh", "-c", "echo hi; exec sleep 300"])
        front = Front(hold)
        front.see("web | hi")
        wait_for(lambda: "listening" in hold.cli("logs", "holdfast.gate", expect=None).stdout)
        assert hold.cli("logs").stdout == "hi\n"
        front.process.send_signal(signal.SIGINT)
        assert front.end() == 0, front.text
        assert "web | -- stopped" in front.text
        assert "gate" not in front.text
        assert "listening" not in front.text
