"""Small real files for the fuzzers to start from: a table that PyIceberg and the program write.

usage: fuzz_seeds.py CORPUS_DIR

CORPUS_DIR/<fuzzer>/ gets the files of its kind.
"""

import base64
import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.puffin import PuffinFile
from pyroaring import BitMap

PROGRAM = Path(os.environ.get("THALWEG_BIN", Path(__file__).parents[1] / "build" / "bin")) / "thalweg"


def make_table(folder: Path, codec: str) -> list[Path]:
    """A table of a few kinds of columns with two runs of the program, and the envelopes of a third; its files."""
    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}"
    catalog = SqlCatalog("lake", uri=uri, warehouse=warehouse)
    catalog.create_namespace("db")
    schema = pa.schema(
        [("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us")), ("price", pa.decimal128(12, 2))]
    )
    properties = {"write.liquid-clustering.columns": "id,name"}
    table = catalog.create_table("db.events", schema=schema, properties=properties)
    rows = pa.table(
        [list(range(40)), [f"name {i % 7}" for i in range(40)], [i * 1_000_000 for i in range(40)], [None] * 40],
        schema=schema,
    )

    def thalweg(*arguments: str) -> None:
        options = ["--quiet", "--catalog-property", f"uri={uri}", "--catalog-property", f"warehouse={warehouse}"]
        subprocess.run([str(PROGRAM), *arguments, *options], check=True)

    def append_and_run(*arguments: str) -> None:
        # PyIceberg cannot write without compression, which is what the fuzzers change best.
        for chosen in ("gzip", codec):
            with table.refresh().transaction() as transaction:
                transaction.set_properties({"write.avro.compression-codec": chosen})
            if chosen == "gzip":
                table.refresh().append(rows)
        thalweg(*arguments)

    for _ in range(2):
        append_and_run("optimize", "lake.db.events")
    append_and_run("plan", "lake.db.events", "--tasks-out", str(folder / "tasks"))
    for task in sorted((folder / "tasks").glob("task-*.json")):
        thalweg("execute", str(task), "--out", str(folder / "tasks" / f"result-{task.name}"))
    return [path for path in folder.rglob("*") if path.is_file()]


def position_bitmaps() -> dict[str, bytes]:
    """Bitmaps of deletion vectors, with each kind of container."""
    bitmaps = {}
    for name, positions in {
        "arrays": [BitMap([0, 7, 65536, 200_000])],
        "bitset": [BitMap(range(0, 20_000, 2))],
        "runs": [BitMap(range(10, 300)) | BitMap(range(70_000, 140_000))],
        "two-keys": [BitMap(), BitMap([1, 2, 3])],
    }.items():
        for bitmap in positions:
            bitmap.run_optimize()
        parts = [struct.pack("<I", key) + bitmap.serialize() for key, bitmap in enumerate(positions)]
        bitmaps[name] = struct.pack("<Q", len(parts)) + b"".join(parts)
    return bitmaps


def fuzzer_of(path: Path) -> str | None:
    if path.name.endswith(".metadata.json"):
        return "metadata_fuzz"
    if path.suffix == ".avro":
        return "manifest_list_fuzz" if path.name.startswith("snap-") else "manifest_fuzz"
    if path.suffix == ".puffin":
        return "puffin_fuzz"
    return "envelope_fuzz" if path.parent.name == "tasks" and path.suffix == ".json" else None


def main() -> None:
    corpus = Path(sys.argv[1])

    def add(fuzzer: str, name: str, data: bytes) -> None:
        (corpus / fuzzer).mkdir(parents=True, exist_ok=True)
        (corpus / fuzzer / name).write_bytes(data)

    for codec in ("uncompressed", "gzip"):
        with tempfile.TemporaryDirectory() as folder:
            for path in make_table(Path(folder), codec):
                fuzzer, name = fuzzer_of(path), f"seed-{codec}-{path.name}"
                if fuzzer:
                    add(fuzzer, name, path.read_bytes())
                if path.suffix == ".parquet":
                    data = path.read_bytes()
                    add("projection_fuzz", name, data[-8 - int.from_bytes(data[-8:-4], "little") : -8])
                if fuzzer == "metadata_fuzz":
                    schema = json.dumps(json.loads(path.read_text())["schemas"][0])
                    add("projection_fuzz", f"schema-{name}", schema.encode())
                if fuzzer == "puffin_fuzz":
                    puffin = PuffinFile(path.read_bytes())
                    add("cube_map_fuzz", name, puffin.get_blob_payload(puffin.footer.blobs[0]))
                if fuzzer == "envelope_fuzz":
                    model = json.loads(path.read_text()).get("fitted")
                    if model:
                        add("fitted_fuzz", name, base64.b64decode(model))
    for name, bitmap in position_bitmaps().items():
        body = b"\xd1\xd3\x39\x64" + bitmap
        blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
        add("deletion_vector_fuzz", f"seed-{name}", bitmap)
        add("deletion_vector_fuzz", f"seed-blob-{name}", blob)


if __name__ == "__main__":
    main()
