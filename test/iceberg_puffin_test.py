"""Puffin files that Thalweg writes, read by PyIceberg (see PuffinInterop in thalweg_iceberg_test)."""

import json

from pyiceberg.table.puffin import PuffinFile
from thalweg_test_tools import needs_interop, run_interop

pytestmark = needs_interop


def test_pyiceberg_reads_what_is_written(tmp_path):
    run_interop("PuffinInterop.Write", tmp_path)
    data = (tmp_path / "sample.puffin").read_bytes()
    expected = json.loads((tmp_path / "sample.json").read_text())
    file = PuffinFile(data)
    assert file.footer.properties == expected["properties"]
    assert data[-expected["footer_size"] :][:4] == b"PFA1"
    assert len(file.footer.blobs) == len(expected["blobs"]) == 4
    end = 4
    for blob, wanted in zip(file.footer.blobs, expected["blobs"], strict=True):
        assert blob.type == wanted["type"]
        assert blob.fields == wanted["fields"]
        assert blob.snapshot_id == wanted["snapshot-id"]
        assert blob.sequence_number == wanted["sequence-number"]
        assert blob.properties == wanted["properties"]
        assert blob.compression_codec == wanted["compression-codec"]
        assert blob.offset == end
        end += blob.length
        if blob.compression_codec != "lz4":
            assert file.get_blob_payload(blob).hex() == wanted["data"]
        else:
            assert data[blob.offset : blob.offset + blob.length].hex() == wanted["data"]
    assert end == len(data) - expected["footer_size"]
