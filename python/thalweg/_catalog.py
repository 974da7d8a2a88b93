"""PyIceberg as the catalog of a table: Thalweg works on the files, PyIceberg loads and commits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.table import Table

Answer = tuple[Any, ...]


def strings(properties: Mapping[str, Any]) -> dict[str, str]:
    """Properties as texts, without those that are None."""
    return {str(key): str(value) for key, value in properties.items() if value is not None}


class PyIcebergCatalog:
    """The catalog of one table, as `_core.run` asks it. Loads the table anew each time."""

    commits = True

    def __init__(self, table: Table) -> None:
        self._catalog = table.catalog
        self._identifier = table.name()
        self._table = table
        self.description = f"table {'.'.join(self._identifier)} in the catalog {self._catalog.name} of PyIceberg"

    def load(self) -> Answer:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            self._table = self._catalog.load_table(self._identifier)
        except NoSuchTableError as error:
            return "missing", f"there is no {self.description}: {error}"
        except Exception as error:
            return "error", f"{self.description}: PyIceberg cannot load it: {type(error).__name__}: {error}"
        return self._state(self._table.metadata_location)

    def commit(self, requirements: str, updates: str) -> Answer:
        from pydantic import ValidationError
        from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, WaitingForLockException
        from pyiceberg.table import CommitTableRequest

        try:
            request = CommitTableRequest.model_validate(
                {
                    "identifier": {"namespace": self._identifier[:-1], "name": self._identifier[-1]},
                    "requirements": json.loads(requirements),
                    "updates": json.loads(updates),
                }
            )
        except ValidationError as error:
            return "error", f"{self.description}: PyIceberg does not know a part of the commit: {error}"
        try:
            response = self._catalog.commit_table(self._table, request.requirements, request.updates)
        except (CommitFailedException, WaitingForLockException) as error:
            return "conflict", f"{self.description}: another commit came first: {error}"
        except CommitStateUnknownException as error:
            return "unknown", f"{self.description}: {error}"
        except (NotImplementedError, ValueError) as error:
            return "error", f"{self.description}: PyIceberg refused the commit: {type(error).__name__}: {error}"
        except Exception as error:
            return "unknown", f"{self.description}: {type(error).__name__}: {error}"
        return self._state(response.metadata_location)

    def _state(self, metadata_location: str | None) -> Answer:
        metadata = "" if metadata_location else self._table.metadata.model_dump_json()
        return "ok", metadata_location or "", metadata, strings(self._table.io.properties)


class PinnedTable:
    """A table at one metadata file, for the execution of tasks elsewhere: no catalog is asked."""

    commits = False

    def __init__(self, description: str, metadata_location: str, properties: dict[str, str]) -> None:
        self.description = description
        self._metadata_location = metadata_location
        self._properties = properties

    @classmethod
    def of(cls, table: Table) -> PinnedTable:
        return cls(f"table {'.'.join(table.name())}", table.metadata_location, strings(table.io.properties))

    def load(self) -> Answer:
        return "ok", self._metadata_location, "", self._properties

    def commit(self, requirements: str, updates: str) -> Answer:
        return "error", f"{self.description} was opened to work on its files, not to commit to it"
