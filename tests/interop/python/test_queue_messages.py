"""Messages: sent, received, peeked, updated, deleted, in each of the SDK's encodings, up to their limits."""

from datetime import datetime, timedelta, timezone

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.queue import (
    BinaryBase64DecodePolicy,
    BinaryBase64EncodePolicy,
    QueueClient,
    TextBase64DecodePolicy,
    TextBase64EncodePolicy,
)

from conftest import raises

WEEK = 7 * 24 * 3600


def contents(messages):
    return [one.content for one in messages]


def test_a_message_is_sent_received_and_deleted(queue):
    before = datetime.now(timezone.utc) - timedelta(minutes=5)
    sent = queue.send_message("hello")
    assert sent.id and sent.pop_receipt and sent.content == "hello"
    assert sent.inserted_on > before
    assert sent.expires_on - sent.inserted_on == timedelta(days=7)

    received = queue.receive_message()
    assert (received.id, received.content, received.dequeue_count) == (sent.id, "hello", 1)
    assert received.inserted_on == sent.inserted_on
    assert timedelta(seconds=25) < received.next_visible_on - sent.inserted_on < timedelta(minutes=5)
    assert queue.receive_message() is None

    queue.delete_message(received)
    raises(404, "MessageNotFound", queue.delete_message, received)


def test_messages_come_in_order_and_hide_while_received(queue):
    for number in range(5):
        queue.send_message(str(number))
    assert queue.receive_message(visibility_timeout=60).content == "0"
    assert contents(queue.peek_messages(max_messages=32)) == ["1", "2", "3", "4"]
    pages = queue.receive_messages(messages_per_page=3, visibility_timeout=60).by_page()
    assert contents(next(pages)) == ["1", "2", "3"]
    assert contents(queue.receive_messages(max_messages=32)) == ["4"]
    assert queue.get_queue_properties().approximate_message_count == 5


def test_a_peek_changes_nothing(queue):
    queue.send_message("a")
    for _ in range(2):
        [peeked] = queue.peek_messages()
        assert (peeked.content, peeked.dequeue_count, peeked.pop_receipt) == ("a", 0, None)
    assert queue.receive_message().dequeue_count == 1


@pytest.mark.parametrize("ttl", [1000, 10 * WEEK])
def test_a_message_lives_as_long_as_it_is_told(queue, ttl):
    sent = queue.send_message("a", time_to_live=ttl)
    assert sent.expires_on - sent.inserted_on == timedelta(seconds=ttl)


def test_a_message_can_live_forever(queue):
    queue.send_message("a", time_to_live=-1)
    assert queue.receive_message().expires_on.year == 9999


def test_a_message_can_be_sent_hidden(queue):
    sent = queue.send_message("a", visibility_timeout=600)
    assert sent.next_visible_on - sent.inserted_on == timedelta(seconds=600)
    assert queue.peek_messages() == []
    assert queue.receive_message() is None
    assert queue.get_queue_properties().approximate_message_count == 1
    queue.update_message(sent, visibility_timeout=0)
    assert queue.receive_message().content == "a"


@pytest.mark.parametrize(
    "options",
    [
        {"visibility_timeout": WEEK + 1},
        {"visibility_timeout": -1},
        {"time_to_live": 0},
        {"time_to_live": -2},
    ],
)
def test_times_out_of_range_are_refused(queue, options):
    with pytest.raises(HttpResponseError) as caught:
        queue.send_message("a", **options)
    assert caught.value.status_code == 400
    assert caught.value.error_code in ("OutOfRangeQueryParameterValue", "InvalidQueryParameterValue")
    assert queue.peek_messages() == []


def test_a_message_may_not_die_hidden(queue):
    with pytest.raises(HttpResponseError) as caught:
        queue.send_message("a", visibility_timeout=60, time_to_live=60)
    assert (caught.value.status_code, caught.value.error_code) == (400, "InvalidQueryParameterValue")


@pytest.mark.parametrize("timeout", [0, WEEK + 1])
def test_receiving_hides_for_a_second_to_a_week(queue, timeout):
    raises(400, "OutOfRangeQueryParameterValue", queue.receive_message, visibility_timeout=timeout)


@pytest.mark.parametrize("count", [-1, 33])
def test_at_most_32_are_taken_at_once(queue, count):
    with pytest.raises(ValueError):
        queue.peek_messages(max_messages=count)
    raises(400, "OutOfRangeQueryParameterValue", lambda: list(queue.receive_messages(messages_per_page=count)))


def test_an_update_changes_content_and_receipt(queue):
    queue.send_message("old")
    first = queue.receive_message(visibility_timeout=60)
    second = queue.update_message(first, content="new", visibility_timeout=0)
    assert second.content == "new"
    assert second.pop_receipt != first.pop_receipt
    raises(400, "PopReceiptMismatch", queue.update_message, first, visibility_timeout=0)
    raises(400, "PopReceiptMismatch", queue.delete_message, first)
    again = queue.receive_message()
    assert (again.content, again.dequeue_count) == ("new", 2)


def test_an_update_can_leave_the_content(queue):
    queue.send_message("kept")
    received = queue.receive_message(visibility_timeout=60)
    queue.update_message(received.id, pop_receipt=received.pop_receipt, visibility_timeout=0)
    assert queue.receive_message().content == "kept"


def test_a_receipt_that_is_none_is_refused(queue):
    sent = queue.send_message("a")
    raises(400, "InvalidQueryParameterValue", queue.delete_message, sent.id, "no receipt")
    raises(404, "MessageNotFound", queue.delete_message, "01234567-89ab-cdef-0123-456789abcdef", sent.pop_receipt)


def test_clearing_leaves_an_empty_queue(queue):
    for number in range(3):
        queue.send_message(str(number))
    queue.receive_message(visibility_timeout=60)
    queue.clear_messages()
    assert queue.get_queue_properties().approximate_message_count == 0
    assert queue.peek_messages() == []


@pytest.mark.parametrize("text", ["plain", "a < b & \"c\" > 'd' ]]>", "  both sides  ", "line\nline", "žluťoučký 🐎", ""])
def test_text_comes_back_as_it_was_sent(queue, text):
    queue.send_message(text)
    [peeked] = queue.peek_messages()
    assert (peeked.content or "") == text
    assert (queue.receive_message().content or "") == text


def test_a_control_character_is_refused(queue):
    raises(400, "InvalidXmlDocument", queue.send_message, "a\u0001b")


@pytest.mark.parametrize(
    "encode, decode, content, stored",
    [
        (TextBase64EncodePolicy, TextBase64DecodePolicy, "a\u0001 žlutý <", "YQEgxb5sdXTDvSA8"),
        (BinaryBase64EncodePolicy, BinaryBase64DecodePolicy, b"\0\xff\xfe", "AP/+"),
    ],
)
def test_encodings_of_the_client(account, queue, encode, decode, content, stored):
    with QueueClient.from_connection_string(
        account.connection_string,
        queue.queue_name,
        message_encode_policy=encode(),
        message_decode_policy=decode(),
    ) as client:
        client.send_message(content)
        assert client.peek_messages()[0].content == content
        assert queue.peek_messages()[0].content == stored
        received = client.receive_message(visibility_timeout=60)
        assert received.content == content
        client.update_message(received, content=content * 2, visibility_timeout=0)
        assert client.receive_message().content == content * 2


def test_64_kib_is_the_largest_message(queue):
    queue.send_message("x" * 65536)
    assert len(queue.receive_message().content) == 65536
    error = raises(413, "RequestBodyTooLarge", queue.send_message, "x" * 65537)
    assert error.response.headers["x-ms-error-code"] == "RequestBodyTooLarge"


def test_every_message_is_received_once(queue):
    names = {str(number) for number in range(70)}
    for name in names:
        queue.send_message(name)
    received = contents(queue.receive_messages(messages_per_page=32, visibility_timeout=300))
    assert len(received) == 70
    assert set(received) == names
