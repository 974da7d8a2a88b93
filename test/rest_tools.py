"""A real REST catalog: the reference implementation's, in a JVM of its own on the loopback (see tools/jvm.sh)."""

import subprocess
import threading
import uuid
from pathlib import Path

from jvm_tools import class_path, java
from pyiceberg.catalog.rest import RestCatalog
from thalweg_test_tools import Lake, catalog_variables, clean_environment


class RestServer:
    """The server; its catalog keeps its tables in a folder. Further properties of the catalog may follow."""

    def __init__(self, folder: Path, **properties: str):
        folder.mkdir(parents=True, exist_ok=True)
        self.warehouse = f"file://{folder}/warehouse"
        settings = {"uri": f"jdbc:sqlite:{folder}/rest.db", "warehouse": self.warehouse} | properties
        self.log = folder / "server.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [java(), "-Xmx256m", "-XX:+UseSerialGC", "-cp", class_path("rest"), "RestCatalogMain"]
                + [f"{key}={value}" for key, value in settings.items()],
                stdin=subprocess.PIPE,  # closed when this process ends, however it ends
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        timer = threading.Timer(180, self.process.kill)
        timer.start()
        port = self.process.stdout.readline().strip()
        timer.cancel()
        assert port.isdigit(), self.log.read_text()
        self.uri = f"http://127.0.0.1:{port}"

    def stop(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()


class RestLake(Lake):
    """A REST catalog "lake" with a fresh namespace; everything else as in a Lake over SQLite.

    The program is given the catalog's properties through the environment, as PyIceberg would be.
    """

    def __init__(self, folder: Path, server: RestServer, **properties: str):
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.namespace = f"db_{uuid.uuid4().hex[:12]}"
        self.uri, self.warehouse = server.uri, server.warehouse
        self.properties = {"type": "rest", "uri": self.uri} | properties
        self.catalog = RestCatalog("lake", **self.properties)
        self.catalog.create_namespace(self.namespace)
        self.environment = clean_environment(self.home, **catalog_variables(self.properties))
