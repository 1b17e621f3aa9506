"""Metadata whose names are signed in an order that is not that of bytes: `chunk_count` before `chunk1`."""

import pytest
from conftest import fresh_name

NAMES = [
    {"chunk1": "a", "chunk_count": "b"},
    {"part2": "a", "part_of": "b"},
    {"ab": "a", "a_b": "b", "a1": "c", "a_1": "d"},
    {"Chunk1": "a", "chunk_Count": "b", "chunK10": "c"},
]


@pytest.mark.parametrize("metadata", NAMES)
def test_a_container_and_a_blob_take_it(container, metadata):
    container.set_container_metadata(metadata)
    assert container.get_container_properties().metadata == metadata
    blob = container.upload_blob("a", b"x", metadata=metadata)
    assert blob.get_blob_properties().metadata == metadata
    blob.set_blob_metadata(metadata)
    assert blob.get_blob_properties().metadata == metadata


@pytest.mark.parametrize("metadata", NAMES)
def test_a_queue_takes_it(queues, metadata):
    queue = queues.create_queue(fresh_name("q"), metadata=metadata)
    queue.set_queue_metadata(metadata)
    # Names of queues' metadata come back as they were written.
    assert queue.get_queue_properties().metadata == metadata
    queue.delete_queue()
