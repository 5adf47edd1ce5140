"""The network doors of a configuration: where they listen, and who may pass."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from holdfast.adapters.config.blocks import Values
from holdfast.adapters.config.env_file import resolved
from holdfast.adapters.config.kinds import Reading
from holdfast.adapters.config.problems import Problem
from holdfast.rules.authority import token_strength
from holdfast.vocabulary.addresses import is_loopback
from holdfast.vocabulary.specs.services import DoorSpec, HttpSpec


def door_of(reading: Reading, values: Values, chosen: Mapping[str, Any]) -> DoorSpec:
    security: Values = values.get("security") or Values("security", values.node)
    authentication: Values = security.get("authentication") or Values("", values.node)
    host = chosen.get("host", "127.0.0.1")
    token = chosen.get("token") or authentication.get("token") or None
    written = authentication.get("token")
    if written and token == written and (weakness := token_strength.why_weak(written)):
        place, key = authentication.at("token"), authentication.path_of("token")
        reading.note(place, key, weakness, token_strength.HINT)
    is_local = is_loopback(host)
    is_authenticated = authentication.get("enabled", token is not None)
    is_bound = security.get("bind_to_localhost", is_local)
    if not is_local and is_bound:
        message = f'"{host}" is not this machine, but bind_to_localhost is true'
        place = security.at("bind_to_localhost")
        hint = "write host: 127.0.0.1, or bind_to_localhost: false"
        reading.note(place, security.path_of("bind_to_localhost"), message, hint)
    elif not is_local and not is_authenticated:
        message = f'"{host}" can be reached from the network, and nobody would be asked for a token'
        hint = "write security: {authentication: {enabled: true}}, or host: 127.0.0.1"
        if values.get("host") == host:
            reading.note(values.at("host"), values.path_of("host"), message, hint, host)
        else:
            outside = ("the environment", None, None, "SUPERVISOR_HOST")
            reading.problems.append(Problem(*outside, host, message, hint))
    return DoorSpec(
        host=host,
        port=chosen.get("port", 8081),
        allowed_commands=_commands(reading, security),
        authentication=is_authenticated,
        token=token,
        open_status=security.get("open_status", False),
        tcp=chosen.get("tcp", True),
        is_port_given="port" in chosen,
    )


def _commands(reading: Reading, security: Values) -> tuple[str, ...] | None:
    """As the registry calls them; what is none would silently allow nothing."""
    if "allowed_commands" not in security:
        return None
    from holdfast.vocabulary import command_names

    given: tuple[str, ...] = security["allowed_commands"]
    where = security.at("allowed_commands"), security.path_of("allowed_commands")
    for wrong in filter(None, map(command_names.why_unknown, given)):
        reading.note(*where, *wrong)
    return tuple(map(command_names.named, given))


def http_of(reading: Reading, values: Values, chosen: Mapping[str, Any]) -> HttpSpec:
    security: Values = values.get("security") or Values("security", values.node)
    tls: Values = values.get("tls") or Values("tls", values.node)
    certificate, key = (_file(reading, tls, name) for name in ("certificate", "key"))
    if (certificate is None) is not (key is None):
        message = "a certificate and its key belong together"
        reading.note(tls.node, tls.path, message, "write tls: {certificate: …, key: …}")
    self_made = tls.get("mode") == "self"
    if self_made and certificate is not None:
        message = "either a certificate is given, or one is made"
        reading.note(tls.at("mode"), tls.path_of("mode"), message, "leave out mode: self")
    given = [word.strip() for word in reading.environ.get("ALLOWED_ORIGINS", "").split(",")]
    origins = given if any(given) else security.get("allowed_origins", ())
    host = str(chosen.get("host", "127.0.0.1")).strip("[]")
    return HttpSpec(
        enabled=chosen.get("http", True),
        host="127.0.0.1" if host == "localhost" else host,
        port=chosen.get("http_port", 3001),
        is_port_given="http_port" in chosen,
        certificate=certificate,
        key=key,
        self_made=self_made,
        allowed_origins=tuple(dict.fromkeys(word for word in origins if word)),
    )


def _file(reading: Reading, tls: Values, name: str) -> str | None:
    written = tls.get(name)
    if written is None:
        return None
    path = resolved(written, reading.folder, reading.environ)
    if not os.access(path, os.R_OK):
        message, hint = "this file cannot be read", "check its name and its permissions"
        reading.note(tls.at(name), tls.path_of(name), message, hint, written)
    return path
