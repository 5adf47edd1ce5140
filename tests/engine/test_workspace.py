"""A configuration that is read anew brings its roots along: nobody looks them up on the loop."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from holdfast.app.handlers import configuration as reloading
from holdfast.engine.caller import UpEnvironment
from holdfast.engine.workspace import Workspace
from holdfast.vocabulary.specs.settings import Configuration


def test_reading_a_configuration_looks_its_roots_up(tmp_path: Path) -> None:
    """In the thread that reads it; with the very files that are never opened once it is used."""
    (tmp_path / "holdfast.yaml").write_text(
        "services: {}\ntls: {certificate: c.pem, key: k.pem}\nfiles: {roots: {src: {path: .}}}\n"
    )
    (tmp_path / "k.pem").touch()
    (tmp_path / "c.pem").touch()
    foreseen: list[Any] = []

    class Files:
        def foresee(self, *arguments: Any) -> None:
            foreseen.append((threading.current_thread(), *arguments))

    def fitted(configuration: Configuration, *_: Any) -> Configuration:
        return configuration

    nothing: Any = None
    workspace = Workspace(
        nothing, nothing, nothing, nothing, project=str(tmp_path), state=str(tmp_path / "s")
    )
    context: Any = SimpleNamespace(
        project=str(tmp_path), scaling=SimpleNamespace(fitted=fitted), workspace=workspace
    )
    path = str(tmp_path / "holdfast.yaml")

    async def read() -> Configuration:
        return await asyncio.to_thread(reloading.read_configuration, context, path, UpEnvironment())

    asyncio.run(read())
    assert foreseen == [], "who never asked for files does not load them"
    workspace.__dict__["files"] = Files()
    configuration = asyncio.run(read())
    thread, spec, never = foreseen[0]
    assert thread is not threading.main_thread()
    assert spec == configuration.settings.files
    denied = dict(never)
    assert denied[path] == "it is Holdfast's configuration"
    assert denied[str(tmp_path / "k.pem")] == "it is a private key"
