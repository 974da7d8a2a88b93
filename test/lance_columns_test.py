"""Every kind of column goes through a rewrite unchanged, beside keys with nulls, NaNs and repeated values."""

import decimal
import json
import os

import numpy as np
import pyarrow as pa
import pytest
from lance_test_tools import LanceTable, lance, needs_lance

pytestmark = needs_lance

ROWS = 600


def column_of(kind: pa.DataType, rng: np.random.Generator, count: int = ROWS) -> pa.Array:
    """Values of a type, nulls among them."""
    integers = rng.integers(0, 100, count)
    nulls = rng.random(count) < 0.1
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, column_of(kind.storage_type, rng, count))
    if pa.types.is_boolean(kind):
        return pa.array(integers % 2 == 0, kind, mask=nulls)
    if pa.types.is_floating(kind):
        values = rng.normal(size=count)
        values[integers == 1], values[integers == 2], values[integers == 3] = np.nan, -np.inf, -0.0
        return pa.array(values.astype(kind.to_pandas_dtype()), kind, mask=nulls)
    if pa.types.is_decimal(kind):
        values = [decimal.Decimal(int(value)).scaleb(-kind.scale) for value in integers]
        return pa.array([None if null else value for value, null in zip(values, nulls, strict=True)], kind)
    if pa.types.is_dictionary(kind):
        return column_of(kind.value_type, rng, count).dictionary_encode().cast(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        lengths = [0, 3, 70, 3000]
        values = ["é" * lengths[value % 4] + str(value) for value in integers]
        return pa.array([None if null else value for value, null in zip(values, nulls, strict=True)], kind)
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([None if null else rng.bytes(kind.byte_width) for null in nulls], kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if null else rng.bytes(int(n)) for null, n in zip(nulls, integers, strict=True)], kind)
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(column_of(kind.value_type, rng, count * kind.list_size), type=kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = column_of(kind.value_type, rng, 3 * count).to_pylist()
        values = [None if nulls[i] else inner[3 * i : 3 * i + integers[i] % 4] for i in range(count)]
        return pa.array(values, kind)
    if pa.types.is_struct(kind):
        fields = [column_of(field.type, rng, count) for field in kind]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=pa.array(nulls))
    if pa.types.is_map(kind):
        return pa.array(
            [None if null else [("a", int(n)), ("b", None)] for null, n in zip(nulls, integers, strict=True)], kind
        )
    if pa.types.is_null(kind):
        return pa.nulls(count)
    return (
        pa.array(integers, pa.int64(), mask=nulls).cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    )


KINDS = {
    "bool": pa.bool_(),
    "uint8": pa.uint8(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "decimal": pa.decimal128(20, 4),
    "decimal256": pa.decimal256(50, 4),
    "date32": pa.date32(),
    "date64": pa.date64(),
    "seconds": pa.timestamp("s"),
    "zoned nanoseconds": pa.timestamp("ns", "UTC"),
    "time": pa.time64("us"),
    "duration": pa.duration("ms"),
    "string": pa.string(),
    "large string": pa.large_string(),
    "binary": pa.binary(),
    "fixed binary": pa.binary(16),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "list": pa.list_(pa.int32()),
    "list of strings": pa.large_list(pa.string()),
    "vector": pa.list_(pa.float32(), 16),
    "half vector": pa.list_(pa.float16(), 8),
    "byte vector": pa.list_(pa.uint8(), 4),
    "struct": pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string()), ("d", pa.list_(pa.int8()))]))]),
    "list of structs": pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])),
    "map": pa.map_(pa.string(), pa.int64()),
    "uuid": pa.uuid(),
    "null": pa.null(),
}


def keyed(count: int, rng: np.random.Generator) -> dict[str, pa.Array]:
    return {"k1": pa.array(rng.integers(0, 1000, count)), "k2": pa.array(rng.random(count))}


def rewrite(table: LanceTable, keys: str = "k1,k2", rows_per_fragment: int = 400) -> None:
    """Declares, optimizes, and looks whether everything is as before; in another order than before."""
    before, schema, order = table.rows(), table.dataset.schema, table.dataset.to_table()
    table.ok("set", "--columns", keys)
    report = table.ok("optimize", "--target-rows-per-fragment", rows_per_fragment, "--verify", "full")
    assert (report["outcome"], report["rows"]) == ("committed", order.num_rows)
    assert table.dataset.schema.equals(schema, check_metadata=True)
    assert table.rows() == before
    table.dataset.validate()
    table.check_no_leftovers()


@pytest.mark.parametrize("name", KINDS)
def test_columns(lake, name):
    rng = np.random.default_rng(3)
    table = LanceTable(lake)
    try:
        for _ in range(2):
            table.append(pa.table(keyed(ROWS, rng) | {"x": column_of(KINDS[name], rng)}))
    except (OSError, ValueError) as error:
        pytest.skip(f"Lance does not write it: {error}")
    rewrite(table)
    assert table.dataset.schema.field("x").type == KINDS[name]


def test_many_columns_at_once(lake):
    rng = np.random.default_rng(4)
    kinds = {name: kind for name, kind in KINDS.items() if name not in ("map", "null")}
    table = LanceTable(lake)
    for _ in range(2):
        table.append(pa.table(keyed(ROWS, rng) | {name: column_of(kind, rng) for name, kind in kinds.items()}))
    table.dataset.delete("k1 % 10 = 3")
    rewrite(table)


def test_json(lake):
    rng = np.random.default_rng(5)
    numbers = rng.integers(0, 100, ROWS).tolist()
    texts = [json.dumps({"a": n, "b": [1, "x", None]}) if n % 9 else None for n in numbers]
    table = LanceTable(lake)
    for _ in range(2):
        document = pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(texts))
        table.append(pa.table(keyed(ROWS, rng) | {"doc": document}))
    condition = "json_get_int(doc, 'a') = 7"
    hits = table.dataset.to_table(filter=condition, columns=["k2"]).num_rows
    assert hits > 0
    rewrite(table)
    assert table.dataset.to_table(filter=condition, columns=["k2"]).num_rows == hits


def test_400_columns(lake):
    rng = np.random.default_rng(6)
    table = LanceTable(lake)
    for _ in range(2):
        table.append(pa.table(keyed(200, rng) | {f"c{number}": rng.random(200) for number in range(400)}))
    rewrite(table, rows_per_fragment=150)


def test_columns_that_were_added_renamed_and_dropped(lake):
    """A fragment may hold columns in several files, or not at all."""
    rng = np.random.default_rng(7)
    table = LanceTable(lake)
    rows = [pa.table(keyed(ROWS, rng) | {"s": column_of(pa.string(), rng)}) for _ in range(3)]
    table.append(rows[0])
    table.append(rows[1])
    table.dataset.add_columns({"twice": "k1 * 2"})
    table.dataset.add_columns(pa.field("later", pa.string()))
    table.dataset.drop_columns(["s"])
    table.dataset.alter_columns({"path": "k2", "name": "renamed"})
    more = rows[2].drop_columns(["s"]).rename_columns({"k2": "renamed"})
    table.append(more.append_column("twice", pa.array([-1] * ROWS)).append_column("later", pa.array(["x"] * ROWS)))
    rewrite(table, "k1,renamed")


def test_columns_that_may_not_be_null(lake):
    rng = np.random.default_rng(8)
    schema = pa.schema(
        [pa.field("k1", pa.int64(), nullable=False), pa.field("k2", pa.float64(), nullable=False)], {"owner": "me"}
    )
    table = LanceTable(lake)
    for _ in range(2):
        table.append(pa.table(list(keyed(ROWS, rng).values()), schema=schema))
    rewrite(table)


# --- blobs


def legacy_blobs(values: list) -> tuple[pa.Field, pa.Array]:
    return (
        pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
        pa.array(values, pa.large_binary()),
    )


def blobs(values: list) -> tuple[pa.Field, pa.Array]:
    return lance.blob_field("blob"), lance.blob_array(values)


def all_blobs(table: LanceTable) -> dict:
    """The bytes behind every row, by its id."""
    rows = table.dataset.to_table(columns=["id"])
    found = {}
    for position, row in enumerate(rows["id"].to_pylist()):
        found[row] = table.dataset.take_blobs("blob", indices=[position])
    return {row: files[0].readall() if files[0] else None for row, files in found.items()}


@pytest.mark.parametrize("make, version", [(legacy_blobs, "2.0"), (legacy_blobs, "2.1"), (blobs, "2.2")])
@pytest.mark.parametrize("largest", [300, 90_000])
def test_blobs_survive_or_are_refused(lake, make, version, largest):
    rng = np.random.default_rng(9)
    count = 40
    table = LanceTable(lake, data_storage_version=version)
    for first in (0, count):
        values = [os.urandom(1 + int(size)) for size in rng.integers(0, largest, count)]
        field, array = make([None if number % 7 == 3 else value for number, value in enumerate(values)])
        columns = keyed(count, rng) | {"id": pa.array(range(first, first + count))}
        schema = pa.schema([*pa.table(columns).schema, field])
        table.append(pa.table([*columns.values(), array], schema=schema))
    before, version_before, files = all_blobs(table), table.dataset.version, table.files("data")
    assert sum(value is not None for value in before.values()) >= 60
    assert table.run("set", "--columns", "k1,k2").code == 0
    done = table.run("optimize", "--json", "--target-rows-per-fragment", 30)
    if done.code != 0:
        assert "blob" in done.error()
        assert table.files("data") == files and table.dataset.version == version_before + 1
    else:
        assert done.json["outcome"] == "committed" and len(table.fragment_rows()) >= 3
        table.check_no_leftovers()
    assert all_blobs(table) == before


# --- keys


def with_nulls(values: np.ndarray, share: float, rng) -> pa.Array:
    return pa.array(values, mask=rng.random(len(values)) < share)


def hot(values: np.ndarray, rng) -> np.ndarray:
    return np.where(rng.random(len(values)) < 0.6, values[0], values)


KEYS = {
    "nulls": lambda rng, n: (with_nulls(rng.random(n), 0.3, rng), with_nulls(rng.integers(0, 50, n), 0.3, rng)),
    "all null": lambda rng, n: (pa.nulls(n, pa.int64()), pa.nulls(n, pa.string())),
    "one null key": lambda rng, n: (pa.nulls(n, pa.int64()), pa.array(rng.random(n))),
    "NaN": lambda rng, n: (
        pa.array(np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n))),
        pa.array(np.where(rng.random(n) < 0.1, -np.inf, rng.normal(size=n)).astype(np.float32)),
    ),
    "all NaN": lambda rng, n: (pa.array(np.full(n, np.nan)), pa.array(rng.random(n))),
    "equal": lambda rng, n: (pa.array(np.full(n, 7)), pa.array(["same"] * n)),
    "one hot value": lambda rng, n: (pa.array(hot(rng.random(n), rng)), pa.array(hot(rng.integers(0, 99, n), rng))),
    "booleans": lambda rng, n: (with_nulls(rng.random(n) < 0.5, 0.1, rng), pa.array(rng.integers(0, 9, n))),
    "extremes": lambda rng, n: (
        pa.array(rng.choice([-(2**63), 2**63 - 1, 0, -1], n)),
        pa.array(rng.choice(np.array([0, 2**64 - 1, 2**63], np.uint64), n)),
    ),
    "strings": lambda rng, n: (
        pa.array(rng.choice(["", "a", "é" * 40, "\U0001f600", "x" * 5000], n)),
        pa.array([f"{'p' * 64}{value}" for value in rng.integers(0, 10**6, n)]),
    ),
    "decimals": lambda rng, n: (
        pa.array(
            [decimal.Decimal(int(value)).scaleb(-2) for value in rng.integers(-9999, 9999, n)], pa.decimal128(38, 2)
        ),
        pa.array(rng.integers(0, 99, n).astype("int32"), pa.date32()),
    ),
    "nanoseconds": lambda rng, n: (
        pa.array(rng.integers(0, 2**60, n), pa.timestamp("ns")),
        pa.array(rng.integers(0, 2**50, n), pa.timestamp("us", "Europe/Zurich")),
    ),
    "dictionaries": lambda rng, n: (
        pa.array(rng.choice(["a", "b", "c"], n)).dictionary_encode(),
        pa.array(rng.random(n)),
    ),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys(lake, name):
    rng = np.random.default_rng(10)
    table = LanceTable(lake)
    for first in range(0, 1800, ROWS):
        one, two = KEYS[name](rng, ROWS)
        table.append(pa.table({"id": range(first, first + ROWS), "k1": one, "k2": two}))
    rewrite(table, rows_per_fragment=300)
    assert len(table.fragment_rows()) >= 6
    check_answers(table)
    # It ends, whatever the values.
    assert table.ok("optimize", "--target-rows-per-fragment", 300)["outcome"] == "nothing-to-do"
    assert table.run("status").code == 0


def check_answers(table: LanceTable) -> None:
    """Answers with zone maps are those without, of what stands in the first row and of nulls."""
    rows = table.dataset.to_table(columns=["k1", "k2"])
    for name in ("k1", "k2"):
        conditions = [f"{name} IS NULL", f"{name} IS NOT NULL"]
        value = rows[name].drop_null()
        if len(value) and pa.types.is_primitive(value.type) and not pa.types.is_temporal(value.type):
            number = value[len(value) // 2].as_py()
            if number == number and abs(number) < 2**63:  # Lance reads larger literals as floating-point numbers
                conditions += [f"{name} = {number}", f"{name} <> {number}"]
            if not pa.types.is_boolean(value.type):
                conditions += [f"{name} > 0", f"{name} <= 50"]
        elif len(value) and pa.types.is_string(value.type):
            text = value[len(value) // 2].as_py()
            conditions += [f"{name} = '{text}'", f"{name} > '{text}'"]
        for condition in conditions:
            answers = [
                sorted(table.dataset.to_table(columns=["id"], filter=condition, use_scalar_index=use)["id"].to_pylist())
                for use in (True, False)
            ]
            assert answers[0] == answers[1], (condition, len(answers[0]), len(answers[1]))


def test_nulls_and_values_are_apart(lake):
    """Nulls have a coordinate of their own: IS NULL and an equality each open few fragments."""
    rng = np.random.default_rng(12)
    table = LanceTable(lake)
    for first in range(0, 8000, 1000):
        one, two = with_nulls(rng.random(1000), 0.25, rng), pa.array(rng.random(1000))
        table.append(pa.table({"id": range(first, first + 1000), "k1": one, "k2": two}))
    table.ok("set", "--columns", "k1,k2")
    table.ok("optimize", "--target-rows-per-fragment", 500)
    fragments = len(table.fragment_rows())
    assert table.scanned("k1 IS NULL").fragments <= 0.6 * fragments
    assert table.scanned("k1 < 0.05").fragments <= 0.45 * fragments
