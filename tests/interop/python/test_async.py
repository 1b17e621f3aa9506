"""The asynchronous client: the main paths over aiohttp."""

import asyncio
from datetime import datetime, timedelta, timezone

import pytest
from azure.core import MatchConditions
from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import EdmType, TableTransactionError, UpdateMode, generate_table_sas
from azure.data.tables.aio import TableClient, TableServiceClient

from conftest import entity, own


def against(account, table, story):
    """Runs one asynchronous story with a client of the test's table."""

    async def told():
        async with TableClient.from_connection_string(account.connection_string, table.table_name) as client:
            return await story(client)

    return asyncio.run(told())


def test_tables_are_created_listed_and_deleted(account, table_name):
    async def story():
        async with TableServiceClient.from_connection_string(account.connection_string) as service:
            await service.create_table(table_name)
            with pytest.raises(ResourceExistsError):
                await service.create_table(table_name)
            await service.create_table_if_not_exists(table_name)
            found = service.query_tables("TableName eq @name", parameters={"name": table_name})
            assert [one.name async for one in found] == [table_name]
            await service.delete_table(table_name)
            assert table_name not in [one.name async for one in service.list_tables()]

    asyncio.run(story())


def test_an_entity_lives_and_dies(account, table):
    async def story(client):
        written = entity(name="Ada", large=(2**60, EdmType.INT64), real=2.0, binary=b"\0\1")
        await client.create_entity(written)
        stored = await client.get_entity("p", "r")
        assert own(stored) == {"name": "Ada", "large": (2**60, EdmType.INT64), "real": 2.0, "binary": b"\0\1"}
        await client.update_entity(entity(name="Grace"), mode=UpdateMode.MERGE)
        with pytest.raises(ResourceModifiedError):
            await client.update_entity(stored, match_condition=MatchConditions.IfNotModified)
        await client.upsert_entity(entity(only=1), mode=UpdateMode.REPLACE)
        assert own(await client.get_entity("p", "r")) == {"only": 1}
        await client.delete_entity("p", "r")
        with pytest.raises(ResourceNotFoundError):
            await client.get_entity("p", "r")

    against(account, table, story)


def test_a_query_comes_in_pages(account, table):
    async def story(client):
        await client.submit_transaction([("create", entity(f"{number:02}", n=number)) for number in range(25)])
        pages = client.query_entities("n ge @low", parameters={"low": 5}, results_per_page=8, select=["n"]).by_page()
        sizes = [[one["n"] async for one in page] async for page in pages]
        assert [len(page) for page in sizes] == [8, 8, 4]
        assert sum(sizes, []) == list(range(5, 25))

    against(account, table, story)


def test_a_transaction_fails_as_a_whole(account, table):
    async def story(client):
        await client.create_entity(entity("2", n=0))
        with pytest.raises(TableTransactionError) as caught:
            await client.submit_transaction([("create", entity("1")), ("create", entity("2"))])
        assert caught.value.index == 1
        assert caught.value.error_code == "EntityAlreadyExists"
        assert [one["RowKey"] async for one in client.list_entities()] == ["2"]

    against(account, table, story)


def test_many_requests_at_once(account, table):
    async def story(client):
        await asyncio.gather(*(client.create_entity(entity(f"{number:03}", n=number)) for number in range(100)))
        read = await asyncio.gather(*(client.get_entity("p", f"{number:03}") for number in range(100)))
        assert [one["n"] for one in read] == list(range(100))

    against(account, table, story)


def test_of_many_writers_under_one_etag_one_wins(account, table):
    async def story(client):
        etag = (await client.create_entity(entity(n=-1)))["etag"]
        results = await asyncio.gather(
            *(
                client.update_entity(entity(n=number), etag=etag, match_condition=MatchConditions.IfNotModified)
                for number in range(10)
            ),
            return_exceptions=True,
        )
        assert sum(isinstance(result, ResourceModifiedError) for result in results) == 9

    against(account, table, story)


def test_a_sas_opens_the_table(account, table):
    token = generate_table_sas(
        account.credential, table.table_name, permission="r", expiry=datetime.now(timezone.utc) + timedelta(hours=1)
    )
    table.create_entity(entity(a=1))

    async def story():
        async with TableClient(account.endpoint, table.table_name, credential=AzureSasCredential(token)) as client:
            assert (await client.get_entity("p", "r"))["a"] == 1

    asyncio.run(story())
