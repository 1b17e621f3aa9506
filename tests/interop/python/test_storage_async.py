"""The asynchronous clients of queues and blobs: the main paths over aiohttp."""

import asyncio

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobBlock
from azure.storage.blob.aio import BlobServiceClient
from azure.storage.queue.aio import QueueServiceClient

from conftest import fresh_name


def with_queues(account, story):
    async def told():
        async with QueueServiceClient.from_connection_string(account.connection_string) as service:
            await story(service)

    asyncio.run(told())


def with_blobs(account, story, **options):
    async def told():
        async with BlobServiceClient.from_connection_string(account.connection_string, **options) as service:
            await story(service)

    asyncio.run(told())


def test_a_queue_lives_and_dies(account):
    async def story(service):
        name = fresh_name("q")
        queue = await service.create_queue(name, metadata={"a": "b"})
        found = [one async for one in service.list_queues(name_starts_with=name, include_metadata=True)]
        assert [(one.name, one.metadata) for one in found] == [(name, {"a": "b"})]
        assert (await queue.get_queue_properties()).approximate_message_count == 0
        await queue.delete_queue()
        with pytest.raises(ResourceNotFoundError):
            await queue.get_queue_properties()

    with_queues(account, story)


def test_messages_are_worked_on_by_many(account, queue):
    async def story(service):
        client = service.get_queue_client(queue.queue_name)
        await asyncio.gather(*(client.send_message(str(number)) for number in range(60)))
        done = []

        async def work():
            while message := await client.receive_message(visibility_timeout=60):
                done.append(message.content)
                await client.delete_message(message)

        await asyncio.gather(*(work() for _ in range(4)))
        assert sorted(done, key=int) == [str(number) for number in range(60)]
        assert (await client.get_queue_properties()).approximate_message_count == 0

    with_queues(account, story)


def test_a_message_is_peeked_updated_and_cleared(account, queue):
    async def story(service):
        client = service.get_queue_client(queue.queue_name)
        await client.send_message("old")
        assert (await client.peek_messages())[0].content == "old"
        received = [one async for one in client.receive_messages(max_messages=1, visibility_timeout=60)]
        await client.update_message(received[0], content="new", visibility_timeout=0)
        assert (await client.receive_message()).content == "new"
        await client.clear_messages()
        assert (await client.get_queue_properties()).approximate_message_count == 0

    with_queues(account, story)


def test_a_blob_lives_and_dies(account, container):
    async def story(service):
        blob = service.get_blob_client(container.container_name, "b")
        etag = (await blob.upload_blob(b"hello", metadata={"a": "b"}))["etag"]
        with pytest.raises(ResourceExistsError):
            await blob.upload_blob(b"again")
        assert await (await blob.download_blob()).readall() == b"hello"
        assert await (await blob.download_blob(offset=1, length=3)).readall() == b"ell"
        await blob.set_blob_metadata({"c": "d"}, etag=etag, match_condition=MatchConditions.IfNotModified)
        with pytest.raises(HttpResponseError) as caught:
            await blob.set_blob_metadata({}, etag=etag, match_condition=MatchConditions.IfNotModified)
        assert caught.value.status_code == 412
        async with await blob.acquire_lease(15) as lease:
            with pytest.raises(HttpResponseError):
                await blob.delete_blob()
            assert lease.id
        await blob.delete_blob()
        assert not await blob.exists()

    with_blobs(account, story)


def test_a_large_blob_is_staged_and_read_in_pieces(account, container):
    content = b"".join(number.to_bytes(4, "big") for number in range(150_000))

    async def story(service):
        blob = service.get_blob_client(container.container_name, "large")
        await blob.upload_blob(content, max_concurrency=4)
        committed, _ = await blob.get_block_list()
        assert len(committed) == 10
        downloaded = await blob.download_blob(max_concurrency=4)
        assert await downloaded.readall() == content
        assert b"".join([chunk async for chunk in (await blob.download_blob()).chunks()]) == content

    pieces = 64 * 1024
    with_blobs(
        account,
        story,
        max_single_put_size=pieces,
        max_block_size=pieces,
        max_single_get_size=pieces,
        max_chunk_get_size=pieces,
    )


def test_blocks_appends_and_lists(account, container):
    async def story(service):
        inside = service.get_container_client(container.container_name)
        staged = inside.get_blob_client("dir/staged")
        await asyncio.gather(*(staged.stage_block(f"{number:03}", bytes([number])) for number in range(20)))
        await staged.commit_block_list([BlobBlock(f"{number:03}") for number in range(20)])
        assert await (await staged.download_blob()).readall() == bytes(range(20))
        log = inside.get_blob_client("log")
        await log.create_append_blob()
        await asyncio.gather(*(log.append_block(b"x") for _ in range(20)))
        assert (await log.get_blob_properties()).size == 20
        assert [one.name async for one in inside.list_blobs(results_per_page=1)] == ["dir/staged", "log"]
        assert [one.name async for one in inside.walk_blobs()] == ["dir/", "log"]

    with_blobs(account, story)
