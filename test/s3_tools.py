"""S3 on the loopback (moto): a bucket, a lake whose tables lie in one, and a server that checks who asks for what."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import boto3
import requests
from moto.server import ThreadedMotoServer
from pyiceberg.catalog.sql import SqlCatalog
from spark_tools import SparkCatalog, sql_catalog
from thalweg_test_tools import Lake, catalog_variables, clean_environment

KEY, SECRET, REGION = "key", "hush-hush", "us-east-1"


def start_s3() -> ThreadedMotoServer:
    """The server; stop() it in the end."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    return moto


def endpoint_of(server: ThreadedMotoServer) -> str:
    host, port = server.get_host_and_port()
    return f"http://{host}:{port}"


def aws_client(service: str, endpoint: str, key: str = KEY, secret: str = SECRET):
    return boto3.client(
        service, endpoint_url=endpoint, region_name=REGION, aws_access_key_id=key, aws_secret_access_key=secret
    )


class Bucket:
    """A bucket, empty at first."""

    def __init__(self, endpoint: str, name: str = "lake"):
        self.endpoint, self.name = endpoint, name
        self.client = aws_client("s3", endpoint)
        self.client.create_bucket(Bucket=name)
        for key in self.sizes():
            self.client.delete_object(Bucket=name, Key=key)

    def sizes(self, folder: str = "") -> dict[str, int]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=folder)
        return {item["Key"]: item["Size"] for page in pages for item in page.get("Contents", [])}

    def names(self, folder: str = "") -> set[str]:
        return set(self.sizes(folder))


class S3Lake(Lake):
    """A SQLite catalog in a folder, whose warehouse is in a bucket."""

    def __init__(self, folder: Path, server: ThreadedMotoServer, bucket: str = "lake"):
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.bucket = Bucket(endpoint_of(server), bucket)
        self.client = self.bucket.client
        self.uri = f"sqlite:///{folder}/catalog.db"
        self.warehouse = f"s3://{bucket}/warehouse"
        self.access = {
            "s3.endpoint": self.bucket.endpoint,
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "s3.region": REGION,
            "s3.path-style-access": "true",
        }
        self.properties = {"type": "sql", "uri": self.uri, "warehouse": self.warehouse} | self.access
        self.catalog = SqlCatalog("lake", **self.properties)
        self.catalog.create_namespace(self.namespace)
        self.environment = clean_environment(self.home, **catalog_variables(self.properties))

    def files(self) -> dict[str, int]:
        return self.bucket.sizes()


def s3_catalog(session, lake: S3Lake) -> SparkCatalog:
    """The catalog of an S3Lake in Spark."""
    given = {key: value for key, value in lake.access.items() if key != "s3.region"}
    more = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "client.region": REGION}
    return sql_catalog(session, lake, **(given | more))


# Checks are switched on and off for the whole process: this one is a process of its own.
GUARDED = """
import logging, os, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
os._exit(0)
"""


def policy_of(*statements: dict) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


ANYBODY = policy_of({"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"})


class GuardedS3:
    """An S3 server that checks signatures, session tokens and policies of all requests."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", GUARDED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.endpoint = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        iam = aws_client("iam", self.endpoint)
        iam.create_user(UserName="owner")
        everything = policy_of({"Effect": "Allow", "Action": "*", "Resource": "*"})
        iam.put_user_policy(UserName="owner", PolicyName="all", PolicyDocument=everything)
        owner = iam.create_access_key(UserName="owner")["AccessKey"]
        self.key, self.secret = owner["AccessKeyId"], owner["SecretAccessKey"]
        requests.post(f"{self.endpoint}/moto-api/reset-auth", data=b"0", timeout=60)  # from now on all are checked
        self.iam, self.sts, self.s3 = (
            aws_client(service, self.endpoint, self.key, self.secret) for service in ("iam", "sts", "s3")
        )

    def make_role(self, name: str, *resources: str) -> str:
        """A role that may do anything with these resources ("bucket", "bucket/folder/*"); its name in AWS."""
        role = self.iam.create_role(RoleName=name, AssumeRolePolicyDocument=ANYBODY)["Role"]["Arn"]
        self.allow(name, *resources)
        return role

    def allow(self, name: str, *resources: str) -> None:
        """What a role may touch from now on; nothing: nothing."""
        effect = "Allow" if resources else "Deny"
        named = [f"arn:aws:s3:::{each}" for each in resources or "*"]
        policy = policy_of({"Effect": effect, "Action": "s3:*", "Resource": named})
        self.iam.put_role_policy(RoleName=name, PolicyName="access", PolicyDocument=policy)

    def credentials(self, role: str) -> dict[str, str]:
        """New credentials of a role, as a REST catalog hands them out."""
        made = self.sts.assume_role(RoleArn=role, RoleSessionName="vended")["Credentials"]
        return {
            "s3.access-key-id": made["AccessKeyId"],
            "s3.secret-access-key": made["SecretAccessKey"],
            "s3.session-token": made["SessionToken"],
        }

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=20)
