"""A suite of plain functions: each runs once, and what it raises is its failure. Writes JUnit XML, as pytest does.

    python clients/delta_rs.py RESULT.xml
"""

import os
import subprocess
import sys
import time
import traceback
import xml.etree.ElementTree as xml

ACCOUNT, KEY = os.environ["STRANGERS_ACCOUNT"], os.environ["STRANGERS_KEY"]
BLOB, QUEUE, TABLE = (os.environ[f"STRANGERS_{it}"] for it in ("BLOB", "QUEUE", "TABLE"))
CONNECTION_STRING = (
    f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};"
    f"BlobEndpoint={BLOB};QueueEndpoint={QUEUE};TableEndpoint={TABLE};"
)

_checks = []


def check(function):
    _checks.append(function)
    return function


def container(name):
    """Makes a container with the official SDK."""
    from azure.storage.blob import BlobServiceClient

    return BlobServiceClient.from_connection_string(CONNECTION_STRING).create_container(name)


def command(*words, seconds=60):
    """What a program prints; its failure is an error with what it said."""
    done = subprocess.run([str(it) for it in words], capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        raise RuntimeError(f"{done.stderr.strip() or done.stdout.strip()} ({' '.join(map(str, words))})")
    return done.stdout


def main():
    suite = xml.Element("testsuite")
    for function in _checks:
        case = xml.SubElement(suite, "testcase", classname="", name=function.__name__)
        begun = time.monotonic()
        try:
            function()
            said = "ok"
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            xml.SubElement(case, "failure", message=message).text = traceback.format_exc()
            said = message.splitlines()[0]
        case.set("time", f"{time.monotonic() - begun:.2f}")
        print(f"{function.__name__}: {said}", flush=True)
    xml.ElementTree(suite).write(sys.argv[1])
