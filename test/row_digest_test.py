"""Row digest v1 written again from docs/row-digest.md, to check (and, run as a program, to make) the pinned vectors.

The hash comes from libxxhash through ctypes, everything else is plain Python over the values as JSON has them."""

import ctypes
import ctypes.util
import datetime
import decimal
import json
import pathlib
import struct
import sys

import pytest

VECTORS = pathlib.Path(__file__).parent / "data" / "row_digest_vectors.json"


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def load_xxh3():
    name = ctypes.util.find_library("xxhash") or "libxxhash.so.0"
    function = ctypes.CDLL(name).XXH3_128bits
    function.restype = Hash128
    function.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return function


XXH3 = load_xxh3()


def digest(rows):
    total = 0
    for row in rows:
        value = XXH3(row, len(row))
        total += (value.high << 64) | value.low
    return f"{total % (1 << 128):032x}"


def number(fmt):
    return lambda value: struct.pack("<" + fmt, value)


def sized(data):
    return struct.pack("<q", len(data)) + data


def text(value):
    return sized(value.encode())


def unscaled(scale, size):
    def write(value):
        shifted = int(decimal.Decimal(value).scaleb(scale, decimal.Context(prec=100)))
        return shifted.to_bytes(size, "little", signed=True)

    return write


def epoch(per_second, fmt):
    def write(value):
        if not isinstance(value, str):
            return struct.pack("<" + fmt, value)
        seconds, _, fraction = value.partition(".")
        moment = datetime.datetime.strptime(seconds, "%Y-%m-%d %H:%M:%S")
        whole = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(seconds=1)
        digits = len(str(per_second)) - 1
        return struct.pack("<" + fmt, whole * per_second + int((fraction or "0").ljust(digits, "0")))

    return write


def elements(write):
    return lambda values: struct.pack("<q", len(values)) + b"".join(tagged(write, v) for v in values)


def fields(*writers):
    def write(value):
        values = list(value.values()) if isinstance(value, dict) else value
        assert len(values) == len(writers)
        return b"".join(tagged(w, v) for w, v in zip(writers, values, strict=True))

    return write


def tagged(write, value):
    return b"\x00" if value is None else b"\x01" + write(value)


def never(value):
    raise AssertionError(value)


int32 = number("i")
WRITERS = {
    "bool": lambda value: b"\x01" if value else b"\x00",
    "int8": number("b"),
    "int16": number("h"),
    "int32": int32,
    "int64": number("q"),
    "uint8": number("B"),
    "uint16": number("H"),
    "uint32": number("I"),
    "uint64": number("Q"),
    "float32": number("f"),
    "float64": number("d"),
    "decimal128(20,2)": unscaled(2, 16),
    "decimal256(50,3)": unscaled(3, 32),
    "date32": int32,
    "date64": number("q"),
    "time32[s]": int32,
    "time64[us]": number("q"),
    "timestamp[us]": epoch(10**6, "q"),
    "timestamp[ns, UTC]": epoch(10**9, "q"),
    "duration[ms]": number("q"),
    "utf8": text,
    "large_utf8": text,
    "utf8_view": text,
    "binary": text,
    "fixed_size_binary[3]": text,
    "list<int32>": elements(int32),
    "large_list<utf8>": elements(text),
    "fixed_size_list<int16>[2]": elements(number("h")),
    "list_view<int32>": elements(int32),
    "struct<a: int32, b: utf8>": fields(int32, text),
    "map<utf8, int64>": elements(fields(text, number("q"))),
    "list<struct<a: int32, b: list<utf8>>>": elements(fields(int32, elements(text))),
    "dictionary<utf8>": text,
    "null": never,
}

CASES = {
    "bool": [True, False, None],
    "int8": [0, -128, 127, None],
    "int16": [-32768, 32767, 258],
    "int32": [-2147483648, 2147483647, 16909060, None],
    "int64": [-9223372036854775808, 9223372036854775807, 72623859790382856],
    "uint8": [0, 255],
    "uint16": [0, 65535, 258],
    "uint32": [0, 4294967295],
    "uint64": [0, 18446744073709551615],
    "float32": [0.0, -0.0, 1.5, -3.25, None],
    "float64": [0.0, -0.0, 1e300, 0.1, None],
    "decimal128(20,2)": ["0.00", "123.45", "-123456789012345678.90", None],
    "decimal256(50,3)": ["1.000", "-12345678901234567890123456789012345678.901", None],
    "date32": [0, -1, 20000, None],
    "date64": [0, 86400000, None],
    "time32[s]": [0, 86399, None],
    "time64[us]": [0, 86399999999],
    "timestamp[us]": ["1970-01-01 00:00:00", "2026-11-30 05:26:06.123456", "1969-12-31 23:59:59.999999", None],
    "timestamp[ns, UTC]": ["2026-11-30 05:26:06.123456789", None],
    "duration[ms]": [0, -5, 123456789012, None],
    "utf8": ["", "a", "grüße, 世界", None],
    "large_utf8": ["", "abc", None],
    "utf8_view": ["short", "longer than twelve bytes", None],
    "binary": ["", "\u0001\u0002", None],
    "fixed_size_binary[3]": ["abc", "xyz", None],
    "list<int32>": [[], [1, None, 3], None],
    "large_list<utf8>": [["a", "bc"], [None], None],
    "fixed_size_list<int16>[2]": [[1, 2], [None, 4], None],
    "list_view<int32>": [[1], [], None],
    "struct<a: int32, b: utf8>": [{"a": 1, "b": "x"}, {"a": None, "b": None}, None],
    "map<utf8, int64>": [[["k", 1], ["l", None]], [], None],
    "list<struct<a: int32, b: list<utf8>>>": [[{"a": 1, "b": ["x", None]}, None], [], None],
    "dictionary<utf8>": ["red", "green", "red", None],
    "null": [None, None],
}


def vector(name, columns):
    rows = [
        b"".join(tagged(WRITERS[kind], value) for (kind, _), value in zip(columns, row, strict=True))
        for row in zip(*(values for _, values in columns), strict=True)
    ]
    return {
        "name": name,
        "columns": [{"type": kind, "values": values} for kind, values in columns],
        "rows": [row.hex() for row in rows],
        "digest": digest(rows),
    }


def long_rows():
    """Rows of 0 to 2,000 bytes: every path of the hash, which differs by length."""
    return ["x" * n + str(n) for n in [0, 1, 3, 4, 8, 9, 15, 16, 100, 119, 120, 200, 231, 232, 300, 500, 1015, 2000]]


def make():
    vectors = [vector(kind, [(kind, values)]) for kind, values in CASES.items()]
    mixed = [
        ("int64", [1, None, 3]),
        ("utf8", ["ab", "", None]),
        ("bool", [True, None, False]),
        ("float64", [0.5, -1.0, None]),
    ]
    vectors.append(vector("several columns", mixed))
    vectors.append(vector("same rows in another order", [(kind, values[::-1]) for kind, values in mixed]))
    vectors.append(vector("equal rows count", [("int32", [7, 7, 7])]))
    vectors.append(vector("long rows", [("utf8", long_rows())]))
    return {"format": "thalweg.row-digest/1", "vectors": vectors}


def pinned():
    return json.loads(VECTORS.read_text())["vectors"] if VECTORS.exists() else []


@pytest.mark.parametrize("entry", pinned(), ids=lambda entry: entry["name"])
def test_vectors(entry):
    columns = [(column["type"], column["values"]) for column in entry["columns"]]
    again = vector(entry["name"], columns)
    assert again["rows"] == entry["rows"]
    assert again["digest"] == entry["digest"]


def test_every_type_has_a_vector():
    assert {column["type"] for entry in pinned() for column in entry["columns"]} == set(WRITERS)


def test_order_does_not_matter():
    by_name = {entry["name"]: entry["digest"] for entry in pinned()}
    assert by_name["several columns"] == by_name["same rows in another order"]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(make(), ensure_ascii=False, indent=1) + "\n")
