"""The official client for Python, as one of the contenders: client.py WORKLOAD OPERATIONS HOST.

Prints the CPU time in nanoseconds, and 0 allocations, as the contenders in Rust do.
"""

import asyncio
import sys
import time
import uuid
from datetime import datetime, timezone

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import EdmType, EntityProperty
from azure.data.tables.aio import TableServiceClient

# The account that every emulator has; its key is no secret.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
IN_FLIGHT = 16
PER_PARTITION = 1_000


def reading(number):
    """An entity with the properties of `Reading`, and texts as long as its."""
    return {
        "PartitionKey": "p00000",
        "RowKey": f"{number:07}",
        "Level": number % 100,
        "Total": EntityProperty(0x9E3779B97F4A7C1 ^ number, EdmType.INT64),
        "Ratio": number / 7 + 0.5,
        "Active": number % 2 == 0,
        "Measured": datetime(2026, 11, 20, 12, 34, 56, 765432, tzinfo=timezone.utc),
        "Device": uuid.UUID(int=number),
        "Name": "n" * 24,
        "Site": "s" * 40,
        "Notes": "o" * 256,
        "Comment": "c" * 256,
    }


async def one(workload, read, written, readings, number):
    entity = readings[number % len(readings)]
    if workload == "get":
        return bool((await read.get_entity("p00000", entity["RowKey"]))["RowKey"])
    if workload == "insert":
        return bool(await written.create_entity(entity))
    if workload == "EGT":
        answers = await written.submit_transaction([("create", entity) for entity in readings])
        return len(answers) == len(readings)
    found = read.query_entities("PartitionKey eq 'p00000'")
    return len([entity["RowKey"] async for entity in found]) == PER_PARTITION


async def some(workload, operations, *context):
    numbers = iter(range(operations))

    async def worker():
        for number in numbers:
            if not await one(workload, *context, number):
                raise SystemExit("an answer is not what was asked for")

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))


async def main(workload, operations, host):
    credential = AzureNamedKeyCredential(ACCOUNT, KEY)
    async with TableServiceClient(f"http://{host}/{ACCOUNT}", credential=credential) as service:
        context = (
            service.get_table_client("small"),
            service.get_table_client("written"),
            [reading(number) for number in range(100)],
        )
        await some(workload, operations // 10 + 2 * IN_FLIGHT, *context)
        begun = time.process_time_ns()
        await some(workload, operations, *context)
        print(time.process_time_ns() - begun, 0)


asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
