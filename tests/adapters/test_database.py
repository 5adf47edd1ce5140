"""The SQLite file: group commits, replacement of a corrupt file, patience with a full disk."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest

from holdfast.adapters.store.database import Database

SCHEMA = ("CREATE TABLE IF NOT EXISTS things (name TEXT)",)
ADD = "INSERT INTO things VALUES (?)"


def open_database(path: Path) -> Database:
    return Database(str(path), SCHEMA, on_replaced=lambda: None)


def names(database: Database) -> list[str]:
    query = "SELECT name FROM things ORDER BY rowid"
    return database.read(lambda db: [row[0] for row in db.execute(query)]).result(30)


def test_what_is_done_is_on_disk(tmp_path: Path) -> None:
    """`done` is called after the commit, in order, and a reader sees it."""
    database = open_database(tmp_path / "db")
    database.start()
    done = threading.Event()
    order: list[int] = []
    for number in range(200):
        database.submit([(ADD, (str(number),))], lambda number=number: order.append(number))  # type: ignore[misc]
    database.submit([], done.set)
    assert done.wait(30)
    assert order == list(range(200))
    assert names(database) == [str(number) for number in range(200)]
    assert os.stat(tmp_path / "db").st_mode & 0o777 == 0o600
    database.close()


def test_closing_writes_what_is_queued(tmp_path: Path) -> None:
    """Nothing that was submitted before `close` is lost."""
    database = open_database(tmp_path / "db")
    database.start()
    for number in range(5000):
        database.submit([(ADD, (str(number),))], lambda: None)
    database.close()
    with sqlite3.connect(tmp_path / "db") as db:
        assert db.execute("SELECT count(*) FROM things").fetchone() == (5000,)
    db.close()


@pytest.mark.parametrize("size", [0, 100, 16384])
def test_an_index_that_is_cut_in_use(tmp_path: Path, size: int) -> None:
    """It ends nobody, and nothing of the history is lost."""
    database = open_database(tmp_path / "db")
    database.start()
    for name in ("a", "b", "c"):
        done = threading.Event()
        database.submit([(ADD, (name,))], done.set)
        assert done.wait(30)
        os.truncate(tmp_path / "db-shm", size)
    assert names(database) == ["a", "b", "c"]
    os.truncate(tmp_path / "db-shm", size)
    database.close()
    again = open_database(tmp_path / "db")
    assert names(again) == ["a", "b", "c"]
    again.close()


def test_a_corrupt_file_is_moved_aside_at_opening(tmp_path: Path) -> None:
    """Garbage is kept for the curious, and a new file is begun."""
    path = tmp_path / "db"
    path.write_bytes(b"this is no database" * 500)
    database = open_database(path)
    assert database.moved_aside is not None
    assert Path(database.moved_aside).read_bytes().startswith(b"this is no database")
    database.start()
    done = threading.Event()
    database.submit([(ADD, ("new",))], done.set)
    assert done.wait(30)
    assert names(database) == ["new"]
    database.close()


def test_a_file_that_becomes_corrupt_is_replaced_while_it_runs(tmp_path: Path) -> None:
    """The writer goes on with a new file, tells so, and loses nothing that came after."""
    path = tmp_path / "db"
    replaced = threading.Event()
    database = Database(str(path), SCHEMA, on_replaced=replaced.set)
    database.start()
    first, second = threading.Event(), threading.Event()
    database.submit([(ADD, (str(n) * 500,)) for n in range(200)], first.set)
    assert first.wait(30)
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(os.urandom(size))
    database.submit([(ADD, ("after",))], second.set)
    assert second.wait(30)
    assert replaced.is_set()
    assert names(database) == ["after"]
    database.close()


def test_a_locked_file_is_waited_for(tmp_path: Path) -> None:
    """What cannot be written now is written later; nobody is told that it is done before."""
    database = open_database(tmp_path / "db")
    database.start()
    other = sqlite3.connect(tmp_path / "db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    done = threading.Event()
    database.submit([(ADD, ("late",))], done.set)
    assert not done.wait(0.05)
    other.execute("ROLLBACK")
    assert done.wait(30)
    other.close()
    database.close()


def test_a_file_that_cannot_be_opened_is_waited_for(tmp_path: Path) -> None:
    """A full disk at the start costs no history: nothing is moved aside, writing waits."""
    path = tmp_path / "db"
    path.mkdir()
    database = open_database(path)
    assert database.moved_aside is None
    assert database.read_now(lambda db: db.execute("SELECT * FROM things").fetchall()) == []
    database.start()
    done = threading.Event()
    database.submit([(ADD, ("late",))], done.set)
    assert not done.wait(0.05)
    path.rmdir()
    assert done.wait(30)
    assert names(database) == ["late"]
    database.close()


def test_what_is_refused_does_not_hold_up_the_rest(tmp_path: Path) -> None:
    """A mistake of ours costs the one batch, neither the file nor the writer."""
    database = open_database(tmp_path / "db")
    database.start()
    refused, after = threading.Event(), threading.Event()
    database.submit([("INSERT INTO things VALUES (?)", ("a", "b"))], refused.set)
    assert refused.wait(30)
    database.submit([(ADD, ("after",))], after.set)
    assert after.wait(30)
    assert database.moved_aside is None
    assert names(database) == ["after"]
    database.close()


def write(database: Database, *values: str) -> None:
    done = threading.Event()
    database.submit([(ADD, (value,)) for value in values], done.set)
    assert done.wait(30)


def damage(path: Path) -> None:
    """All but the first page, which says that this is a database."""
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))


def test_a_file_that_is_damaged_inside_is_moved_aside_when_it_is_read(tmp_path: Path) -> None:
    """What opens well and cannot be read would keep every supervisor from starting."""
    path = tmp_path / "db"
    first = open_database(path)
    first.start()
    write(first, *(str(n) * 500 for n in range(200)))
    first.close()
    damage(path)
    second = open_database(path)
    assert second.read_now(lambda db: db.execute("SELECT * FROM things").fetchall()) == []
    assert second.moved_aside is not None
    second.start()
    write(second, "new")
    assert names(second) == ["new"]
    second.close()


def test_tables_of_something_else_are_moved_aside(tmp_path: Path) -> None:
    """A file of our name with other columns is nobody's history of ours."""
    path = tmp_path / "db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE things (number INTEGER)")
    other.close()
    database = open_database(path)
    assert database.read_now(lambda db: db.execute("SELECT name FROM things").fetchall()) == []
    assert database.moved_aside is not None
    database.close()


def test_damage_that_a_reader_finds_is_mended(tmp_path: Path) -> None:
    """Who asks hears that the history is damaged; the writer begins a new one, unasked."""
    path, replaced = tmp_path / "db", threading.Event()
    database = Database(str(path), SCHEMA, on_replaced=replaced.set)
    database.start()
    write(database, *(str(n) * 500 for n in range(200)))
    damage(path)
    with pytest.raises(sqlite3.DatabaseError):
        names(database)
    assert replaced.wait(30)
    assert names(database) == []
    database.close()


def test_a_deleted_file_is_begun_anew(tmp_path: Path) -> None:
    """What is written after it was deleted is found by whoever opens the file."""
    path, replaced = tmp_path / "db", threading.Event()
    database = Database(str(path), SCHEMA, on_replaced=replaced.set)
    database.start()
    write(database, "before")
    assert names(database) == ["before"]
    for file in tmp_path.iterdir():
        file.unlink()
    write(database, "after")
    assert replaced.is_set()
    assert names(database) == ["after"]
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT name FROM things").fetchall() == [("after",)]
    other.close()
    database.close()


def test_a_file_that_another_program_has_locked_is_read(tmp_path: Path) -> None:
    """A lock of somebody else keeps nobody from going on with what is there."""
    path = tmp_path / "db"
    first = open_database(path)
    first.start()
    write(first, "before")
    first.close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    second = open_database(path)
    found = second.read_now(lambda db: db.execute("SELECT name FROM things").fetchall())
    other.close()
    assert found == [("before",)]
    assert second.failing is None
    second.close()
