"""Manifests and manifest lists: what Thalweg writes is read by fastavro, PyIceberg and DuckDB, and the reverse.

The program thalweg_iceberg_test in $THALWEG_BIN (default: build/bin) writes and reads the files;
see ManifestInterop there.
"""

import io
import json
import random
import zlib

import duckdb_engine
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    read_manifest_list,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType
from thalweg_test_tools import needs_interop, run_interop

CODECS = ["null", "deflate", "zstandard", "snappy"]
RECODED = ["zstandard", "snappy"]
MAPS = ["column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"]

pytestmark = needs_interop


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    run_interop("ManifestInterop.Write", folder)
    return folder


def read_back(folder):
    """What Thalweg reads from each in-*.avro of the folder."""
    run_interop("ManifestInterop.Read", folder)
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("in-*.json")}


# ---- A container parser of our own, for the codecs that fastavro has only with further packages ----


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def to_varint(value):
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def pack(codec, block):
    if codec == "zstandard":
        return zstandard.compress(block)
    return pa.Codec("snappy").compress(block, asbytes=True) + zlib.crc32(block).to_bytes(4, "big")


def unpack(codec, block):
    if codec == "zstandard":
        return zstandard.decompress(block, max_output_size=1 << 24)
    size = shift = 0
    for byte in block:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    plain = pa.Codec("snappy").decompress(block[:-4], size, asbytes=True)
    assert zlib.crc32(plain).to_bytes(4, "big") == block[-4:]
    return plain


def recode(data, codec, compress):
    """A file of codec null with its blocks compressed by `codec`, or the reverse."""
    old, new = ("null", codec) if compress else (codec, "null")
    at = 4
    out = bytearray(data[:4])
    while True:
        count, at = varint(data, at)
        out += to_varint(count)
        if count == 0:
            break
        for _ in range(count):
            size, start = varint(data, at)
            key = data[start : start + size]
            size, start = varint(data, start + size)
            value = data[start : start + size]
            at = start + size
            if key == b"avro.codec":
                assert value == old.encode()
                value = new.encode()
            out += to_varint(len(key)) + key + to_varint(len(value)) + value
    sync = data[at : at + 16]
    out += sync
    at += 16
    while at < len(data):
        count, at = varint(data, at)
        size, at = varint(data, at)
        block = data[at : at + size]
        block = pack(codec, block) if compress else unpack(codec, block)
        out += to_varint(count) + to_varint(len(block)) + block + sync
        at += size
        assert data[at : at + 16] == sync
        at += 16
    return bytes(out)


def load(path):
    """(header, schema, records) by fastavro."""
    data = path.read_bytes()
    for codec in RECODED:
        if codec in path.name:
            data = recode(data, codec, compress=False)
    reader = fastavro.reader(io.BytesIO(data))
    records = list(reader)
    return reader.metadata, json.loads(reader.metadata["avro.schema"]), records


def plain(value):
    return value.hex() if isinstance(value, bytes) else value


def flat_entry(record):
    """An entry as fastavro has it, in the form that ManifestInterop writes."""
    flat = {k: v for k, v in record.items() if k != "data_file"}
    flat.update(record["data_file"])
    for name in MAPS:
        flat[name] = {str(item["key"]): plain(item["value"]) for item in flat[name] or []}
    flat["key_metadata"] = plain(flat["key_metadata"])
    flat["split_offsets"] = flat["split_offsets"] or []
    flat["equality_ids"] = flat["equality_ids"] or []
    flat.pop("partition")
    for name in ["first_row_id", "content_offset", "content_size_in_bytes"]:
        flat.setdefault(name, None)
    return flat


def flat_manifest(record):
    flat = dict(record, key_metadata=plain(record["key_metadata"]))
    flat.setdefault("first_row_id", None)
    if flat["partitions"] is not None:
        flat["partitions"] = [{k: plain(v) for k, v in item.items()} for item in flat["partitions"]]
    return flat


def expected(folder, name):
    values = json.loads((folder / f"{name}.json").read_text())
    for value in values:
        value.pop("partition_avro", None)
    return values


# ---- Written by Thalweg ----

ENTRY_IDS = {0: "status", 1: "snapshot_id", 3: "sequence_number", 4: "file_sequence_number", 2: "data_file"}
FILE_IDS = {
    134: "content",
    100: "file_path",
    101: "file_format",
    102: "partition",
    103: "record_count",
    104: "file_size_in_bytes",
    108: "column_sizes",
    109: "value_counts",
    110: "null_value_counts",
    137: "nan_value_counts",
    125: "lower_bounds",
    128: "upper_bounds",
    131: "key_metadata",
    132: "split_offsets",
    135: "equality_ids",
    140: "sort_order_id",
    142: "first_row_id",
    143: "referenced_data_file",
    144: "content_offset",
    145: "content_size_in_bytes",
}
MAP_IDS = {108: (117, 118), 109: (119, 120), 110: (121, 122), 137: (138, 139), 125: (126, 127), 128: (129, 130)}
LIST_IDS = [
    *(500, 501, 502, 517, 515, 516, 503, 504, 505, 506, 512, 513, 514, 507, 519, 520),
]


def check_types(schema):
    """Ids everywhere, primitive types as bare strings, optional fields as ["null", T] with default null."""
    if isinstance(schema, str):
        return
    if isinstance(schema, list):
        assert schema[0] == "null" and len(schema) == 2
        return check_types(schema[1])
    kind = schema["type"]
    if kind == "record":
        for field in schema["fields"]:
            assert isinstance(field["field-id"], int)
            if isinstance(field["type"], list):
                assert field["default"] is None
            check_types(field["type"])
    elif kind == "array":
        if schema.get("logicalType") == "map":
            assert [f["name"] for f in schema["items"]["fields"]] == ["key", "value"]
        else:
            assert isinstance(schema["element-id"], int)
        check_types(schema["items"])
    else:
        assert "logicalType" in schema or kind == "fixed", f"a primitive type in an object: {schema}"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("content", ["data", "deletes"])
def test_fastavro_reads_manifests(written, codec, version, content):
    name = f"manifest-{codec}-v{version}-{content}"
    header, schema, records = load(written / f"{name}.avro")
    assert header["content"] == content
    assert header["format-version"] == str(version)
    assert header["partition-spec"] == "[]"
    assert header["partition-spec-id"] == "0"
    assert header["schema-id"] == "7"
    assert [f["name"] for f in json.loads(header["schema"])["fields"]] == ["a", "b"]
    check_types(schema)
    assert schema["name"] == "manifest_entry"
    assert {f["field-id"]: f["name"] for f in schema["fields"]} == ENTRY_IDS
    r2 = schema["fields"][-1]["type"]
    assert r2["name"] == "r2"
    ids = [i for i in FILE_IDS if version == 3 or i not in (142, 144, 145)]
    assert [f["field-id"] for f in r2["fields"]] == ids
    for field in r2["fields"]:
        assert field["name"] == FILE_IDS[field["field-id"]]
        if field["field-id"] == 102:
            assert field["type"] == {"type": "record", "name": "r102", "fields": []}
        if field["field-id"] in MAP_IDS:
            key, value = MAP_IDS[field["field-id"]]
            assert field["type"][1]["items"]["name"] == f"k{key}_v{value}"
            assert [f["field-id"] for f in field["type"][1]["items"]["fields"]] == [key, value]
    assert [flat_entry(r) for r in records] == expected(written, name)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", [2, 3])
def test_fastavro_reads_lists(written, codec, version):
    name = f"list-{codec}-v{version}"
    header, schema, records = load(written / f"{name}.avro")
    assert header["snapshot-id"] == "77"
    assert header["parent-snapshot-id"] == "76"
    assert header["sequence-number"] == "5"
    assert header["format-version"] == str(version)
    assert header.get("first-row-id") == ("1000" if version == 3 else None)
    check_types(schema)
    assert schema["name"] == "manifest_file"
    assert [f["field-id"] for f in schema["fields"]] == (LIST_IDS if version == 3 else LIST_IDS[:-1])
    partitions = schema["fields"][13]["type"][1]
    assert partitions["element-id"] == 508 and partitions["items"]["name"] == "r508"
    assert [f["field-id"] for f in partitions["items"]["fields"]] == [509, 518, 510, 511]
    assert [flat_manifest(r) for r in records] == expected(written, name)


def test_void_partitions(written):
    header, schema, records = load(written / "void.avro")
    check_types(schema)
    partition = schema["fields"][-1]["type"]["fields"][3]["type"]
    assert partition["name"] == "r102"
    assert [(f["field-id"], f["name"]) for f in partition["fields"]] == [
        (1000, "d_void"),
        (1001, "n_x2Dvoid"),
        (1002, "n2_void"),
        (1003, "gone"),
    ]
    # A void field has its source column's type, which for a decimal of 38 digits is a fixed of 16 bytes.
    assert partition["fields"][0]["type"][1] == {"type": "int", "logicalType": "date"}
    assert partition["fields"][1]["type"][1]["size"] == 16
    assert partition["fields"][2]["type"][1] == "decimal_38_2"
    assert all(set(r["data_file"]["partition"].values()) == {None} for r in records)
    assert [flat_entry(r) for r in records] == expected(written, "void")


def manifest_file(path, **overrides):
    values = dict(
        manifest_path=str(path),
        manifest_length=path.stat().st_size,
        partition_spec_id=0,
        content=ManifestContent.DATA,
        sequence_number=424242,
        min_sequence_number=1,
        added_snapshot_id=99,
        added_files_count=1,
        existing_files_count=1,
        deleted_files_count=1,
        added_rows_count=1,
        existing_rows_count=1,
        deleted_rows_count=1,
    )
    values.update(overrides)
    return ManifestFile.from_args(**values)


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("content", ["data", "deletes"])
def test_pyiceberg_reads_manifests(written, codec, version, content):
    name = f"manifest-{codec}-v{version}-{content}"
    entries = manifest_file(written / f"{name}.avro").fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False)
    values = expected(written, name)
    assert len(entries) == len(values)
    for entry, value in zip(entries, values, strict=True):
        file = entry.data_file
        assert entry.status.value == value["status"]
        inherited = {"snapshot_id": 99, "sequence_number": 424242, "file_sequence_number": 424242}
        for field, default in inherited.items():
            assert getattr(entry, field) == (value[field] if value[field] is not None else default)
        assert file.content.value == value["content"]
        assert file.file_format.value == value["file_format"]
        for field in ["file_path", "record_count", "file_size_in_bytes", "sort_order_id"]:
            assert getattr(file, field) == value[field]
        assert plain(file.key_metadata) == value["key_metadata"]
        for field in ["split_offsets", "equality_ids"]:
            assert (getattr(file, field) or []) == value[field]
        for field in MAPS:
            assert {str(k): plain(v) for k, v in (getattr(file, field) or {}).items()} == value[field]


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
@pytest.mark.parametrize("version", [2, 3])
def test_pyiceberg_reads_lists(written, codec, version):
    name = f"list-{codec}-v{version}"
    manifests = list(read_manifest_list(PyArrowFileIO().new_input(str(written / f"{name}.avro"))))
    values = expected(written, name)
    assert len(manifests) == len(values)
    for manifest, value in zip(manifests, values, strict=True):
        value.pop("first_row_id")
        partitions = value.pop("partitions")
        assert plain(manifest.key_metadata) == value.pop("key_metadata")
        assert manifest.content.value == value.pop("content")
        for field, number in value.items():
            assert getattr(manifest, field) == number
        if partitions is None:
            assert manifest.partitions is None
        else:
            fields = ["contains_null", "contains_nan", "lower_bound", "upper_bound"]
            assert [{f: plain(getattr(p, f)) for f in fields} for p in manifest.partitions] == partitions


# Its Avro library does not know zstandard.
@pytest.mark.parametrize("name", ["manifest-deflate-v2-data", "manifest-deflate-v3-deletes", "manifest-snappy-v2-data"])
def test_duckdb_reads_manifests(written, name):
    connection = duckdb_engine.connect()
    rows = connection.execute(
        f"select status, data_file.file_path, data_file.record_count, data_file.lower_bounds "
        f"from read_avro('{written / name}.avro')"
    ).fetchall()
    found = [(*row[:3], {str(k): v.hex() for k, v in (row[3] or {}).items()}) for row in rows]
    assert found == [
        (v["status"], v["file_path"], v["record_count"], v["lower_bounds"]) for v in expected(written, name)
    ]


def test_a_table_is_read(tmp_path):
    ids = [pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.string())]
    ids = [f.with_metadata({"PARQUET:field_id": str(i + 1)}) for i, f in enumerate(ids)]
    rows = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]}, schema=pa.schema(ids))
    pq.write_table(rows, tmp_path / "data.parquet")
    run_interop("ManifestInterop.WriteTable", tmp_path)
    snapshot = {
        "snapshot-id": 77,
        "sequence-number": 1,
        "timestamp-ms": 1700000000000,
        "manifest-list": str(tmp_path / "table-list.avro"),
        "summary": {"operation": "append"},
        "schema-id": 7,
    }
    fields = [
        {"id": 1, "name": "a", "required": True, "type": "long"},
        {"id": 2, "name": "b", "required": False, "type": "string"},
    ]
    metadata = {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": str(tmp_path),
        "last-sequence-number": 1,
        "last-updated-ms": 1700000000000,
        "last-column-id": 2,
        "schemas": [{"type": "struct", "schema-id": 7, "fields": fields}],
        "current-schema-id": 7,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "properties": {},
        "current-snapshot-id": 77,
        "snapshots": [snapshot],
        "snapshot-log": [],
        "metadata-log": [],
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "refs": {"main": {"snapshot-id": 77, "type": "branch"}},
    }
    path = tmp_path / "v1.metadata.json"
    path.write_text(json.dumps(metadata))
    assert StaticTable.from_metadata(str(path)).scan().to_arrow().to_pydict() == rows.to_pydict()
    # With a filter the bounds decide: they must let the file in, and keep it out.
    assert StaticTable.from_metadata(str(path)).scan(row_filter="a >= 3").to_arrow()["b"].to_pylist() == ["z"]
    assert list(StaticTable.from_metadata(str(path)).scan(row_filter="a > 3").plan_files()) == []
    connection = duckdb_engine.connect()
    assert connection.execute(f"select * from iceberg_scan('{path}') order by a").fetchall() == [
        (1, "x"),
        (2, None),
        (3, "z"),
    ]


# ---- Written by others ----

EXTRA_FIELDS = [
    {"name": "x_enum", "type": {"type": "enum", "name": "x.e", "symbols": ["A", "B", "C"]}},
    {"name": "x_map", "type": {"type": "map", "values": {"type": "array", "items": "x.e"}}},
    {"name": "x_fixed", "type": {"type": "fixed", "name": "x_f", "size": 5}, "field-id": 9001},
    {
        "name": "x_tree",
        "type": [
            "double",
            "null",
            {
                "type": "record",
                "name": "tree",
                "namespace": "x",
                "fields": [
                    {"name": "kids", "type": {"type": "array", "items": "tree"}},
                    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                    {"name": "kind", "type": ["null", "e"]},
                ],
            },
        ],
    },
    {"name": "x_null", "type": "null"},
    {"name": "x_float", "type": "float"},
    {"name": "x_bytes", "type": ["bytes", "null", "boolean", "x_f"], "field-id": 9002},
]


def extra_values(rng):
    def tree(depth):
        kids = [tree(depth - 1) for _ in range(rng.randrange(3))] if depth else []
        return {"kids": kids, "at": rng.getrandbits(40), "kind": rng.choice([None, "A"])}

    return {
        "x_enum": rng.choice("ABC"),
        "x_map": {f"k{i}": rng.choices("ABC", k=rng.randrange(4)) for i in range(rng.randrange(4))},
        "x_fixed": rng.randbytes(5),
        "x_tree": rng.choice([None, 1.5, tree(3)]),
        "x_null": None,
        "x_float": 2.5,
        "x_bytes": rng.choice([None, b"abc", True]),
    }


class Disguise:
    """Renames fields, turns unions round and widens them, makes int long, shuffles fields, adds unknown ones."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.names = {}
        self.unions = 0

    def schema(self, schema, top=False):
        if schema == "int":
            return "long"
        if isinstance(schema, str):
            return schema
        if isinstance(schema, list):
            inner = self.schema(schema[1])
            self.unions += 1
            never = {"type": "record", "name": f"never{self.unions}", "fields": [{"name": "q", "type": "double"}]}
            return self.rng.choice([["null", inner], [inner, "null"], [never, inner, "null"]])
        schema = dict(schema)
        if schema["type"] == "array":
            schema["items"] = self.schema(schema["items"])
        elif schema["type"] == "record":
            fields = [dict(f, type=self.schema(f["type"])) for f in schema["fields"]]
            for field in fields:
                field.pop("default", None)
                if field["name"] not in ("key", "value"):
                    self.names[field["name"]] = field["name"] = f"other_{field['name']}"
            if schema["name"] in ("manifest_entry", "manifest_file"):
                fields += EXTRA_FIELDS
            if schema["name"] not in ("manifest_entry", "manifest_file") and not schema["name"].startswith("k1"):
                self.rng.shuffle(fields)
            schema["fields"] = fields
            schema["name"] = f"renamed_{schema['name']}"
            schema["namespace"] = "some.where"
        return schema

    def value(self, value):
        if isinstance(value, dict):
            return {k if k in ("key", "value") else f"other_{k}": self.value(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.value(v) for v in value]
        return value


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", [2, 3])
def test_disguised_files_are_read(written, tmp_path, codec, version):
    wanted = {}
    for name in [f"manifest-null-v{version}-data", f"manifest-null-v{version}-deletes", f"list-null-v{version}"]:
        for seed in range(4):
            header, schema, records = load(written / f"{name}.avro")
            disguise = Disguise(seed)
            schema = disguise.schema(schema)
            records = [dict(disguise.value(r), **extra_values(disguise.rng)) for r in records]
            out = io.BytesIO()
            fastavro.writer(
                out,
                fastavro.parse_schema(schema),
                records,
                codec="null" if codec in RECODED else codec,
                metadata={k: v for k, v in header.items() if not k.startswith("avro.")},
                sync_interval=2000,
            )
            data = out.getvalue()
            if codec in RECODED:
                data = recode(data, codec, compress=True)
            stem = f"in-{name}-{seed}"
            (tmp_path / f"{stem}.avro").write_bytes(data)
            wanted[stem] = json.loads((written / f"{name}.json").read_text())
    results = read_back(tmp_path)
    assert results.keys() == wanted.keys()
    for stem, values in wanted.items():
        found = results[stem]
        if not stem.startswith("in-list"):
            assert found["format_version"] == version
            found = found["entries"]
        assert found == values


SCHEMA = Schema(
    NestedField(1, "a", LongType(), required=True), NestedField(2, "b", StringType(), required=False), schema_id=3
)


def write_with_pyiceberg(path, version, spec, partition, count=50, codec="deflate"):
    rng = random.Random(count)
    output = PyArrowFileIO().new_output(str(path))
    entries = []
    with write_manifest(version, spec, SCHEMA, output, 55, codec) as writer:
        for i in range(count):
            extra = {} if version == 1 else {"equality_ids": None}
            file = DataFile.from_args(
                _table_format_version=2,
                content=DataFileContent.DATA,
                file_path=f"/t/data/{i}.parquet",
                file_format=FileFormat.PARQUET,
                partition=partition(i),
                record_count=i,
                file_size_in_bytes=100 + i,
                column_sizes={1: rng.getrandbits(40), 2: 5},
                value_counts={1: i, 2: i},
                null_value_counts={1: 0, 2: i // 2},
                nan_value_counts={},
                lower_bounds={1: i.to_bytes(8, "little"), 2: b"a"},
                upper_bounds={1: (i + 1).to_bytes(8, "little"), 2: "zé".encode()},
                key_metadata=None,
                split_offsets=[4, 1000 + i],
                sort_order_id=0,
                **extra,
            )
            entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=55, data_file=file)
            writer.add_entry(entry)
            entries.append(
                {
                    "status": 1,
                    "snapshot_id": 55,
                    "sequence_number": None,
                    "file_sequence_number": None,
                    "content": 0,
                    "file_path": file.file_path,
                    "file_format": "PARQUET",
                    "record_count": i,
                    "file_size_in_bytes": 100 + i,
                    "column_sizes": {str(k): v for k, v in file.column_sizes.items()},
                    "value_counts": {"1": i, "2": i},
                    "null_value_counts": {"1": 0, "2": i // 2},
                    "nan_value_counts": {},
                    "lower_bounds": {"1": i.to_bytes(8, "little").hex(), "2": b"a".hex()},
                    "upper_bounds": {"1": (i + 1).to_bytes(8, "little").hex(), "2": "zé".encode().hex()},
                    "key_metadata": None,
                    "split_offsets": [4, 1000 + i],
                    "equality_ids": [],
                    "sort_order_id": 0,
                    "first_row_id": None,
                    "referenced_data_file": None,
                    "content_offset": None,
                    "content_size_in_bytes": None,
                }
            )
    return writer.to_manifest_file(), entries


def test_pyiceberg_manifests_are_read(tmp_path):
    def text(i):
        return f"part-{i}"

    by_b = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "b"), spec_id=1)
    void = PartitionSpec(PartitionField(2, 1000, VoidTransform(), "b"), spec_id=2)
    cases = {
        "in-v1": (1, UNPARTITIONED_PARTITION_SPEC, lambda i: Record(), lambda i: ""),
        "in-v2": (2, UNPARTITIONED_PARTITION_SPEC, lambda i: Record(), lambda i: ""),
        "in-v2-parts": (
            2,
            by_b,
            lambda i: Record(text(i)),
            lambda i: (b"\x02" + to_varint(len(text(i))) + text(i).encode()).hex(),
        ),
        "in-v2-void": (2, void, lambda i: Record(None), lambda i: "00"),
    }
    wanted = {}
    for name, (version, spec, partition, avro) in cases.items():
        _, entries = write_with_pyiceberg(tmp_path / f"{name}.avro", version, spec, partition)
        for i, entry in enumerate(entries):
            entry["partition_avro"] = avro(i)
        wanted[name] = (version, spec, entries)
    results = read_back(tmp_path)
    for name, (version, spec, entries) in wanted.items():
        result = results[name]
        assert result["format_version"] == version
        assert result["content"] == "data"
        assert result["spec_id"] == spec.spec_id
        assert len(json.loads(result["spec"])) == len(spec.fields)
        assert json.loads(result["schema"])["schema-id"] == 3
        assert result["entries"] == entries


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_pyiceberg_lists_are_read(tmp_path, version, codec):
    manifest, _ = write_with_pyiceberg(tmp_path / "m.avro", version, UNPARTITIONED_PARTITION_SPEC, lambda i: Record())
    summary = PartitionFieldSummary(True, False, b"a", None)
    other = manifest_file(tmp_path / "m.avro", partitions=[summary], key_metadata=b"k", added_snapshot_id=12)
    output = PyArrowFileIO().new_output(str(tmp_path / "in-list.avro"))
    with write_manifest_list(version, output, 55, None, 9, codec) as writer:
        writer.add_manifests([manifest, other])
    (first, second) = read_back(tmp_path)["in-list"]
    assert first["manifest_path"] == str(tmp_path / "m.avro")
    assert first["manifest_length"] == (tmp_path / "m.avro").stat().st_size
    assert first["added_files_count"] == 50
    assert first["added_rows_count"] == sum(range(50))
    assert first["added_snapshot_id"] == 55
    assert first["sequence_number"] == first["min_sequence_number"] == (9 if version == 2 else 0)
    assert second["added_snapshot_id"] == 12
    assert second["sequence_number"] == (424242 if version == 2 else 0)
    assert second["key_metadata"] == b"k".hex()
    assert second["partitions"] == [
        {"contains_null": True, "contains_nan": False, "lower_bound": b"a".hex(), "upper_bound": None}
    ]
