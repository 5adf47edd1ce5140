"""`holdfast import`: from another supervisor's file to running services."""

from __future__ import annotations

from tests.harness import Hold, wait_for


def test_from_a_procfile_to_running_services() -> None:
    """Import writes a configuration; `up` runs it with the ports that foreman would have given."""
    with Hold() as hold:
        (hold.project / "Procfile").write_text(
            "web: sh -c 'echo port $PORT; exec sleep 600'\nworker: sleep 600\n"
        )
        assert "services:" in hold.cli("import").stdout
        assert not (hold.project / "holdfast.yaml").exists()
        told = hold.cli("import", "--write")
        assert "foreman ends all" in told.stderr
        assert "web, worker" in told.stdout
        hold.up()
        wait_for(lambda: "port 5000" in hold.cli("logs", "web").stdout, what="the port")
        assert hold.service("worker")["status"] == "running"
        assert "exists already" in hold.cli("import", "--write", expect=1).stderr


def test_what_would_be_lost() -> None:
    """--check prints only that, with lines, and says it by its exit code; --json has everything."""
    with Hold() as hold:
        (hold.project / "compose.yaml").write_text(
            "services:\n  web:\n    image: shop\n    command: sleep 600\n"
        )
        done = hold.cli("import", "--check", expect=1)
        assert done.stdout == ""
        assert "compose.yaml:3: web: image" in done.stderr
        found = hold.json("import", "compose.yaml")
        assert found["services"] == ["web"]
        assert found["losses"][0]["line"] == 3
        assert (
            "name it: holdfast import FILE"
            in hold.cli("import", cwd=str(hold.project.parent), expect=2).stderr
        )
