"""A REST catalog that hands out credentials for a table's files; nobody else has any.

The catalog server is the reference implementation's and owns the bucket; the credentials are those of roles of an S3
server that checks signatures, session tokens and policies. What a production catalog adds to its answers, a proxy adds.
"""

from urllib.parse import urlsplit

import pytest
from pyiceberg.catalog.rest import RestCatalog
from rest_fault_proxy import FaultProxy
from rest_tools import RestLake, RestServer
from thalweg_test_tools import EVENTS, KEYS, SMALL_CUBES, arrow_rows, clean_environment, make_rows

pytest.importorskip("boto3")
pytest.importorskip("moto.server")
from s3_tools import REGION, GuardedS3  # noqa: E402

pytestmark = pytest.mark.jvm
BUCKET = "lake"


@pytest.fixture(scope="module")
def s3():
    server = GuardedS3()
    server.s3.create_bucket(Bucket=BUCKET)
    server.no_role = server.make_role("nobody")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def catalog_server(s3, tmp_path_factory):
    access = {"s3.access-key-id": s3.key, "s3.secret-access-key": s3.secret, "client.region": REGION}
    server = RestServer(
        tmp_path_factory.mktemp("rest-s3"),
        **{"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "warehouse": f"s3://{BUCKET}/warehouse"},
        **{"s3.endpoint": s3.endpoint, "s3.path-style-access": "true"},
        **access,
    )
    yield server
    server.stop()


class VendingLake(RestLake):
    """A lake whose clients go through a proxy, which hands out credentials for the files of the table "events"."""

    def __init__(self, folder, server: RestServer, s3: GuardedS3, proxy: FaultProxy):
        super().__init__(folder, server)
        self.s3, self.proxy = s3, proxy
        self.role_name = f"role-{self.namespace}"
        self.folder_name = f"{BUCKET}/warehouse/{self.namespace}/events"
        self.role = s3.make_role(self.role_name, BUCKET, f"{self.folder_name}/*")
        self.vended: list[str] = []  # keys, in the order in which they were handed out
        self.way = self.in_config
        proxy.edit = self.edit
        properties = {"type": "rest", "uri": proxy.uri}
        self.catalog = RestCatalog("lake", **properties)
        self.environment = {
            key: value
            for key, value in clean_environment(
                self.home, PYICEBERG_CATALOG__LAKE__URI=proxy.uri, PYICEBERG_CATALOG__LAKE__TYPE="rest"
            ).items()
            if not key.startswith("AWS_")
        } | {"AWS_EC2_METADATA_DISABLED": "true"}

    @property
    def place(self) -> dict[str, str]:
        return {"s3.endpoint": self.s3.endpoint, "s3.path-style-access": "true", "s3.region": REGION}

    def edit(self, method: str, path: str, answer: dict) -> None:
        parts = urlsplit(path).path.split("/")
        if (method, parts[-1]) in (("GET", "events"), ("POST", "tables")):  # not: the answer to a commit
            self.way(answer)

    def new_credentials(self) -> dict[str, str]:
        made = self.s3.credentials(self.role)
        self.vended.append(made["s3.access-key-id"])
        return made

    def useless(self) -> dict[str, str]:
        return self.s3.credentials(self.s3.no_role)

    def in_config(self, answer: dict) -> None:
        answer["config"] = self.place | self.new_credentials()

    def by_prefix(self, answer: dict) -> None:
        """Only those of the longest prefix are good, wherever they stand."""
        folder = f"s3://{self.folder_name}"
        answer["config"] = self.place | self.useless()
        answer["storage-credentials"] = [
            {"prefix": f"s3://{BUCKET}", "config": self.useless()},
            {"prefix": folder, "config": self.new_credentials()},
            {"prefix": f"s3://{BUCKET}/warehouse", "config": self.useless()},
            {"prefix": f"{folder}-of-others", "config": self.useless()},
        ]


@pytest.fixture
def lake(tmp_path, catalog_server, s3):
    with FaultProxy(catalog_server.uri) as proxy:
        yield VendingLake(tmp_path / "lake", catalog_server, s3, proxy)


@pytest.mark.parametrize("way", ["in_config", "by_prefix"])
def test_only_vended_credentials_reach_the_files(lake, way):
    lake.way = getattr(lake, way)
    table = lake.make_table("events", EVENTS, SMALL_CUBES | {KEYS: "user_id,event_time"})
    assert table.location() == f"s3://{lake.folder_name}"
    for number in range(6):
        table.append(make_rows(1000, number))
    before = arrow_rows(lake.table().scan().to_arrow())
    assert before.total() == 6000
    address = lake.address()
    assert lake.ok("status", address)["units"] >= 6
    assert lake.ok("optimize", address)["outcome"] == "committed"
    assert arrow_rows(lake.table().scan().to_arrow()) == before

    rows = make_rows(700, 99)
    source = lake.write_parquet("rows.parquet", rows)
    assert lake.ok("write", address, source)["outcome"] == "committed"
    done = lake.ok("optimize", address, "--full")
    assert (done["outcome"], done["rows"]) == ("committed", 6700)
    assert arrow_rows(lake.table().scan().to_arrow()) == before + arrow_rows(rows)
    assert lake.ok("optimize", address)["outcome"] == "nothing-to-do"
    assert lake.ok("clean", address)["outcome"] == "nothing-to-do"


def test_a_new_table_is_written_with_the_credentials_of_its_creation(lake):
    rows = make_rows(500, 1)
    source = lake.write_parquet("rows.parquet", rows)
    made = lake.ok("write", lake.address(), source, "--mode", "create", "--cluster-by", "user_id,event_time")
    assert made["outcome"] == "committed"
    assert arrow_rows(lake.table().scan().to_arrow()) == arrow_rows(rows)


def make_events(lake) -> dict:
    lake.make_events(files=4, rows=800)
    return arrow_rows(lake.table().scan().to_arrow())


def test_loading_the_table_again_brings_new_credentials(lake):
    """Those of the first load end with the second one, which the commit makes."""
    before = make_events(lake)
    roles = [lake.s3.make_role(f"{lake.role_name}-{n}", BUCKET, f"{lake.folder_name}/*") for n in range(8)]
    loads = 0

    def rotate(answer: dict) -> None:
        nonlocal loads
        if loads > 0:
            lake.s3.allow(f"{lake.role_name}-{loads - 1}")
        lake.role = roles[loads]
        loads += 1
        lake.in_config(answer)

    lake.way = rotate
    assert lake.ok("optimize", lake.address())["outcome"] == "committed"
    assert loads >= 2, loads
    lake.way = lake.in_config
    assert arrow_rows(lake.table().scan().to_arrow()) == before


def test_credentials_that_are_about_to_end_are_renewed(lake):
    """They end by the clock in a minute: the table is asked for others before they are used for long."""
    before = make_events(lake)
    lake.vended.clear()

    def ending(answer: dict) -> None:
        lake.in_config(answer)
        answer["config"]["s3.session-token-expires-at-ms"] = "1767225600000" if len(lake.vended) == 1 else "9" * 13

    lake.way = ending
    assert lake.ok("status", lake.address())["units"] >= 4
    assert len(lake.vended) == 2
    assert lake.ok("optimize", lake.address())["outcome"] == "committed"
    lake.way = lake.in_config
    assert arrow_rows(lake.table().scan().to_arrow()) == before


def test_credentials_that_do_not_reach_the_files_are_one_clear_error(lake):
    make_events(lake)
    lake.way = lambda answer: answer.update({"config": lake.place | lake.useless()})
    message = lake.run("optimize", lake.address()).error()
    assert f"s3://{lake.folder_name}/metadata/" in message and "ACCESS_DENIED" in message.upper().replace(" ", "_")
    secrets = lake.useless()
    lake.way = lambda answer: answer.update({"config": lake.place | secrets})
    done = lake.run("status", lake.address())
    assert done.code == 1
    assert all(value not in done.out + done.err for value in secrets.values())
    lake.way = lambda answer: None
    assert f"s3://{lake.folder_name}" in lake.run("status", lake.address()).error()
