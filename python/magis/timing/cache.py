"""The performance cache: what was measured on this machine, in one file for all processes.

It may be damaged, locked, of another version, or without room: times then are measured again, or
kept in memory alone. It never gives a wrong time and never stops a search.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from magis.errors import MagisError
from magis.timing.entries import Entry, Fit, entry_from
from magis.timing.machine import Machine

VERSION = 3  # 2: calls are timed in turns; 3: with all operands in the caches
_NAME = "performance.sqlite3"
# How long one process waits for another that is writing.
_PATIENCE_SECONDS = 5.0

_SCHEMA = """
CREATE TABLE machine (
    id INTEGER PRIMARY KEY,
    device TEXT NOT NULL, driver TEXT NOT NULL, libraries TEXT NOT NULL, threads INTEGER NOT NULL,
    UNIQUE (device, driver, libraries, threads)
);
CREATE TABLE time (
    machine INTEGER NOT NULL REFERENCES machine (id) ON DELETE CASCADE,
    call TEXT NOT NULL,
    seconds REAL NOT NULL, spread REAL NOT NULL, samples INTEGER NOT NULL,
    workspace INTEGER NOT NULL, clock REAL NOT NULL, failure TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (machine, call)
) WITHOUT ROWID;
CREATE TABLE fit (
    machine INTEGER NOT NULL REFERENCES machine (id) ON DELETE CASCADE,
    operator TEXT NOT NULL,
    scale REAL NOT NULL, exponent REAL NOT NULL, calls INTEGER NOT NULL,
    PRIMARY KEY (machine, operator)
) WITHOUT ROWID;
"""


def cache_folder() -> Path:
    """MAGIS_CACHE_DIR, or where this platform's programs keep what they can make again."""
    if given := os.environ.get("MAGIS_CACHE_DIR"):
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "magis"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "magis"


def cache_file() -> Path:
    """The one file of this user, whether or not it is there yet."""
    return cache_folder() / _NAME


class PerformanceCache:
    """Entries by machine and call. Every failure of the file is a warning; what is stored after one
    stays in this process alone.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.path = (folder or cache_folder()) / _NAME
        self._connection: sqlite3.Connection | None = None
        self._memory: dict[Machine, dict[str, Entry]] = {}
        try:
            self._connection = self._open()
        except (OSError, sqlite3.Error) as error:
            self._give_up(error)

    @property
    def is_kept(self) -> bool:
        """Whether what is stored is there for the next process."""
        return self._connection is not None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # ---- reading and writing

    def entries(self, machine: Machine) -> dict[str, Entry]:
        """All that is known of this machine's calls. Damaged rows are left out."""
        found = dict(self._memory.get(machine, {}))
        damaged = 0
        with self._guarded() as connection:
            if connection is None:
                return found
            columns = ("seconds", "spread", "samples", "workspace", "clock", "failure")
            rows = connection.execute(
                f"SELECT call, {', '.join(columns)}, checksum FROM time "
                f"WHERE machine = ({_MACHINE})",
                _fields(machine),
            )
            for call, *values, checksum in rows:
                try:
                    entry = entry_from(dict(zip(columns, values, strict=True)))
                except MagisError:
                    damaged += 1
                    continue
                if entry.check(call) != checksum:
                    damaged += 1
                else:
                    found.setdefault(call, entry)
        if damaged:
            warnings.warn(
                f"{damaged} damaged rows of {self.path} were left out; they are measured again",
                stacklevel=2,
            )
        return found

    def store(self, machine: Machine, entries: Mapping[str, Entry]) -> None:
        """Adds or replaces, all or none."""
        with self._guarded() as connection:
            if connection is not None:
                with connection:
                    self._store(connection, machine, entries)
                return
        self._memory.setdefault(machine, {}).update(entries)

    def machines(self) -> list[tuple[Machine, int, int]]:
        """All that have entries, with the number of their times and of their failures."""
        with self._guarded() as connection:
            if connection is not None:
                rows = connection.execute(
                    "SELECT device, driver, libraries, threads, "
                    "SUM(failure = ''), SUM(failure != '') FROM machine "
                    "JOIN time ON time.machine = machine.id GROUP BY machine.id ORDER BY machine.id"
                )
                return [(Machine(*row[:4]), row[4], row[5]) for row in rows]
        return []

    def clear(self, machine: Machine | None = None) -> int:
        """Forgets one machine's entries, or all; how many there were."""
        with self._guarded() as connection:
            if connection is None:
                return 0
            with connection:
                where = "" if machine is None else f" WHERE machine = ({_MACHINE})"
                fields = () if machine is None else _fields(machine)
                connection.execute(f"DELETE FROM fit{where}", fields)
                return connection.execute(f"DELETE FROM time{where}", fields).rowcount
        return 0

    # ---- calibration

    def fits(self, machine: Machine) -> dict[str, Fit]:
        """By operator, "" for all others: what its modelled times come to on the machine."""
        with self._guarded() as connection:
            if connection is not None:
                rows = connection.execute(
                    "SELECT operator, scale, exponent, calls FROM fit "
                    f"WHERE machine = ({_MACHINE}) ORDER BY operator",
                    _fields(machine),
                )
                fits = {name: Fit(*values) for name, *values in rows}
                return {name: fit for name, fit in fits.items() if fit.is_sane}
        return {}

    def store_fits(self, machine: Machine, fits: Mapping[str, Fit]) -> None:
        """Replaces all of the machine's."""
        with self._guarded() as connection:
            if connection is None:
                return
            with connection:
                number = _number(connection, machine)
                connection.execute("DELETE FROM fit WHERE machine = ?", (number,))
                connection.executemany(
                    "INSERT INTO fit VALUES (?, ?, ?, ?, ?)",
                    [(number, name, f.scale, f.exponent, f.calls) for name, f in fits.items()],
                )

    # ---- the file

    @staticmethod
    def _store(
        connection: sqlite3.Connection, machine: Machine, entries: Mapping[str, Entry]
    ) -> None:
        number = _number(connection, machine)
        connection.executemany(
            "INSERT OR REPLACE INTO time VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    number, call, e.seconds, e.spread, e.samples, e.workspace, e.clock, e.failure,
                    e.check(call),
                )
                for call, e in entries.items()
            ],
        )  # fmt: skip

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return self._connect()
        except (sqlite3.DatabaseError, _OtherVersion) as error:
            if isinstance(error, sqlite3.OperationalError):
                raise  # locked, without room, not to be written to: not the file's fault
            return self._rebuild()

    def _connect(self) -> sqlite3.Connection:
        """Raises sqlite3.DatabaseError or _OtherVersion if the file cannot be used."""
        connection = sqlite3.connect(self.path, timeout=_PATIENCE_SECONDS, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            # A power cut may lose the last measurements, and nothing else.
            connection.execute("PRAGMA synchronous = NORMAL")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                self._create(connection)
            elif version != VERSION:
                raise _OtherVersion
            connection.execute("SELECT COUNT(*) FROM machine").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    @staticmethod
    def _create(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")  # one of several processes does it
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.commit()

    def _rebuild(self, damage: sqlite3.Error | None = None) -> sqlite3.Connection:
        """Sets the file aside and starts a new one, unless another process just did. damage: what
        was found in it although it can be opened.
        """
        with (self.path.parent / f"{_NAME}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                connection = self._connect()
                if damage is None:
                    return connection
                connection.close()
                raise damage
            except (sqlite3.DatabaseError, _OtherVersion) as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                aside = self.path.with_name(f"{_NAME}.set-aside")
                os.replace(self.path, aside)
                for ending in ("-wal", "-shm"):
                    self.path.with_name(_NAME + ending).unlink(missing_ok=True)
                reason = "is of another version" if isinstance(error, _OtherVersion) else str(error)
                warnings.warn(
                    f"the performance cache {self.path} cannot be used ({reason}): it was set "
                    f"aside as {aside.name}, and a new one begins",
                    stacklevel=6,
                )
                return self._connect()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection | None]:
        """The connection, or None; a failure inside ends its use."""
        try:
            yield self._connection
        except sqlite3.OperationalError as error:
            self._give_up(error)
        except sqlite3.Error as error:
            self.close()
            try:
                self._connection = self._rebuild(error)
            except (OSError, sqlite3.Error) as again:
                self._give_up(again)

    def _give_up(self, error: Exception) -> None:
        self.close()
        warnings.warn(
            f"the performance cache {self.path} is left out of this run ({error}): what is "
            "measured is not kept. Set MAGIS_CACHE_DIR to another folder, or make room",
            stacklevel=4,
        )


class _OtherVersion(Exception):
    """The file was written by another version of magis."""


_MACHINE = (
    "SELECT id FROM machine WHERE device = ? AND driver = ? AND libraries = ? AND threads = ?"
)


def _fields(machine: Machine) -> tuple[str, str, str, int]:
    return machine.device, machine.driver, machine.libraries, machine.threads


def _number(connection: sqlite3.Connection, machine: Machine) -> int:
    fields = _fields(machine)
    connection.execute(
        "INSERT OR IGNORE INTO machine (device, driver, libraries, threads) VALUES (?, ?, ?, ?)",
        fields,
    )
    return int(connection.execute(_MACHINE, fields).fetchone()[0])
