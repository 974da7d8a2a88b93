"""An S3 server on the loopback (moto), and a lake whose tables live in it."""

import logging
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer
from pyiceberg.catalog.sql import SqlCatalog
from spark_tools import SparkCatalog, sql_catalog
from thalweg_test_tools import Lake, catalog_variables, clean_environment

BUCKET = "lake"


def start_s3() -> ThreadedMotoServer:
    """The server; stop() it in the end."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    return moto


class S3Lake(Lake):
    """A SQLite catalog in a folder, whose warehouse is a bucket of its own."""

    def __init__(self, folder: Path, server: ThreadedMotoServer):
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        host, port = server.get_host_and_port()
        self.endpoint = f"http://{host}:{port}"
        self.bucket = f"lake-{folder.parent.name}".lower().replace("_", "-")[:60]
        self.client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="key",
            aws_secret_access_key="secret",
        )
        self.client.create_bucket(Bucket=self.bucket)
        self.uri = f"sqlite:///{folder}/catalog.db"
        self.warehouse = f"s3://{self.bucket}/warehouse"
        self.properties = {
            "type": "sql",
            "uri": self.uri,
            "warehouse": self.warehouse,
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": "key",
            "s3.secret-access-key": "secret",
            "s3.region": "us-east-1",
            "s3.path-style-access": "true",
        }
        self.catalog = SqlCatalog("lake", **self.properties)
        self.catalog.create_namespace(self.namespace)
        self.environment = clean_environment(self.home, **catalog_variables(self.properties))

    def files(self) -> dict[str, int]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        return {item["Key"]: item["Size"] for page in pages for item in page.get("Contents", [])}


def s3_catalog(session, lake: S3Lake) -> SparkCatalog:
    """The catalog of an S3Lake in Spark."""
    given = {key: value for key, value in lake.properties.items() if key.startswith("s3.") and key != "s3.region"}
    more = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "client.region": "us-east-1"}
    return sql_catalog(session, lake, **(given | more))
