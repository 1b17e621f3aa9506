"""Copies a table between two servers with the official asynchronous client: copy_table.py TABLE TO FROM_HOST TO_HOST.

As a program would be written: entities as they are listed, transactions of a hundred of one partition, eight at once. Prints entities
per second, microseconds of CPU time per entity, and the peak of memory in MiB.
"""

import asyncio
import resource
import sys
import time

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables.aio import TableServiceClient

# The account that every emulator has; its key is no secret.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
IN_FLIGHT = 8


async def main(source, target, from_host, to_host):
    credential = AzureNamedKeyCredential(ACCOUNT, KEY)
    begun, count, waiting, group = time.monotonic(), 0, set(), []
    async with TableServiceClient(f"http://{from_host}/{ACCOUNT}", credential=credential) as reading:
        async with TableServiceClient(f"http://{to_host}/{ACCOUNT}", credential=credential) as writing:
            table = writing.get_table_client(target)

            async def store(entities):
                await table.submit_transaction([("upsert", entity, {"mode": "replace"}) for entity in entities])

            async def send():
                nonlocal group, waiting
                if len(waiting) == IN_FLIGHT:
                    done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                    for one in done:
                        one.result()
                waiting.add(asyncio.create_task(store(group)))
                group = []

            async for entity in reading.get_table_client(source).list_entities():
                if group and (len(group) == 100 or group[0]["PartitionKey"] != entity["PartitionKey"]):
                    await send()
                group.append(entity)
                count += 1
            if group:
                await send()
            await asyncio.gather(*waiting)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = time.monotonic() - begun
    print(count / seconds, (usage.ru_utime + usage.ru_stime) * 1e6 / count, usage.ru_maxrss / 1024)


asyncio.run(main(*sys.argv[1:5]))
