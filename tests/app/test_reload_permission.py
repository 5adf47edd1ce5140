"""Who may reload what."""

from __future__ import annotations

import pytest

from holdfast.rules.authority.permissions import permit
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.configuration import Plan, Reload


@pytest.mark.parametrize(
    ("role", "may_plan", "may_reload", "may_choose_a_file"),
    [
        (Role.OWNER, True, True, True),
        (Role.ADMIN, True, True, True),
        (Role.OPERATOR, True, True, False),
        (Role.VIEWER, True, False, False),
        (Role.AGENT, True, False, False),
        (Role.STRANGER, False, False, False),
    ],
)
def test_another_file_is_for_admins(
    role: Role, may_plan: bool, may_reload: bool, may_choose_a_file: bool
) -> None:
    """Any file could be read through its problems: naming one takes an admin."""
    actor = Actor(role, "somebody", None)
    assert permit(actor, Plan()).is_allowed is may_plan
    assert permit(actor, Reload()).is_allowed is may_reload
    for command in (Plan(config="/etc/passwd"), Reload(config="/etc/passwd")):
        assert permit(actor, command).is_allowed is may_choose_a_file
