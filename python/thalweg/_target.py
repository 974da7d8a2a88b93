"""What `table` may be in a call: a name, or an object of the library that the table is used with."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ._catalog import PinnedTable, PyIcebergCatalog, strings
from .errors import InvalidTable, UsageError

if TYPE_CHECKING:
    from lance import LanceDataset
    from lancedb.table import LanceTable
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    #: A path or URI, a dotted catalog name, or a table of PyIceberg, pylance or LanceDB.
    TableLike: TypeAlias = str | os.PathLike[str] | Table | LanceDataset | LanceTable
else:
    TableLike = Any


@dataclass
class Target:
    """A table as a command gets it."""

    name: str
    properties: dict[str, str] = field(default_factory=dict)
    catalog: PyIcebergCatalog | PinnedTable | None = None
    #: Brings the caller's object to the table's newest state.
    refresh: Callable[[], object] = lambda: None
    #: The same table for another process: what `resolve` takes, and picklable.
    pin: Callable[[], object] | None = None


def _is_a(value: object, module: str, name: str) -> bool:
    """isinstance without importing the module: who has such an object has imported it."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def foreign_catalog(name: str) -> tuple[Catalog, str] | None:
    """The catalog and the table's name in it, if the name is one of a catalog that only PyIceberg speaks."""
    if "/" in name or name.endswith(".lance") or name.count(".") < 2 or os.path.exists(name):
        return None
    try:
        from pyiceberg.catalog import CatalogType, infer_catalog_type, load_catalog
        from pyiceberg.utils.config import Config
    except ImportError:
        return None
    catalog, _, identifier = name.partition(".")
    config: dict[str, Any] | None = Config().get_catalog_config(catalog)
    if not config:
        return None
    try:
        kind = CatalogType(str(config["type"]).lower()) if "type" in config else infer_catalog_type(catalog, config)
    except ValueError:
        kind = None
    uri = str(config.get("uri", ""))
    spoken = kind == CatalogType.REST or (kind == CatalogType.SQL and uri.startswith(("sqlite:", "jdbc:sqlite:")))
    if spoken and "py-catalog-impl" not in config:
        return None
    return load_catalog(catalog, **config), identifier


def _load(catalog: Catalog, identifier: str) -> Table:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return catalog.load_table(identifier)
    except NoSuchTableError as error:
        raise InvalidTable(f"there is no table {identifier} in the catalog {catalog.name}: {error}") from error


def resolve(table: TableLike, catalog_properties: Mapping[str, str] | None = None) -> Target:
    """The table, ready for a command. `catalog_properties`: before the catalog's configuration, or options of the
    object store (Lance)."""
    properties = strings(catalog_properties or {})
    given: Any = table
    if isinstance(given, str | os.PathLike):
        name = os.fspath(given)
        foreign = None if properties else foreign_catalog(name)
        if foreign is None:
            return Target(name, properties)
        given = _load(*foreign)
    if isinstance(given, PinnedTable):
        return Target(given.description, catalog=given)
    if _is_a(given, "pyiceberg.table", "Table"):
        name = ".".join((given.catalog.name, *given.name()))
        return Target(name, properties, PyIcebergCatalog(given), given.refresh, lambda: PinnedTable.of(given.refresh()))
    if _is_a(given, "lance", "LanceDataset") or _is_a(given, "lancedb.table", "LanceTable"):
        options = strings(given.latest_storage_options() or {})
        return Target(given.uri, options | properties, refresh=given.checkout_latest)
    raise UsageError(
        f"{type(table).__module__}.{type(table).__qualname__} is no table: give a path or URI, a catalog name, a table "
        "of PyIceberg, a LanceDataset, or a local table of LanceDB"
    )
