"""The user that a program runs as: looked up by name or number, and become."""

from __future__ import annotations

import os
import pwd


class NoSuchUser(LookupError):
    """The machine knows no user or group of this name."""


class User:
    """A user with a group, looked up before anything is started. Raises NoSuchUser."""

    __slots__ = ("gid", "is_known", "name", "uid")

    def __init__(self, text: str) -> None:
        name, _, group = text.partition(":")
        try:
            entry = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
        except KeyError:
            if not (name.isdecimal() and group):
                raise NoSuchUser("no such user") from None
            self.is_known, self.name, self.uid = False, text, int(name)
            self.gid = _group_id(group)
            return
        self.is_known = True
        self.name = entry.pw_name
        self.uid = entry.pw_uid
        self.gid = _group_id(group) if group else entry.pw_gid

    @property
    def is_own(self) -> bool:
        """Whether this process has this user and group already."""
        return self.uid == os.geteuid() and self.gid == os.getegid()

    def become(self) -> None:
        """Change to this user, with the groups of this user only."""
        if self.is_known:
            os.initgroups(self.name, self.gid)
        else:
            os.setgroups([self.gid])
        os.setgid(self.gid)
        os.setuid(self.uid)


def _group_id(group: str) -> int:
    import grp

    try:
        return int(group) if group.isdecimal() else grp.getgrnam(group).gr_gid
    except KeyError:
        raise NoSuchUser("no such group") from None
