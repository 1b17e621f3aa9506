"""What the order service does when its storage fails, and as time passes."""

from datetime import timedelta

import pytest
from azure.core.exceptions import ServiceResponseError
from orders import Busy, NumberTaken, Orders
from rowkey_server import Fault, Server


def test_an_order_is_shipped_once(orders: Orders) -> None:
    orders.place("ada", "1", "lamp")
    assert orders.ship() == "1"
    assert orders.ship() is None


def test_an_order_whose_answer_is_lost_is_stored_once(rowkey_server: Server, orders: Orders) -> None:
    # The server stores the order, and closes the connection without an answer.
    with rowkey_server.inject(Fault.on("InsertEntity").resource("orders").nth(1).close_after_commit()) as lost:
        orders.place("ada", "1", "lamp")
    assert lost.hits() == 1
    inserts = rowkey_server.journal(operation="InsertEntity")
    assert [(insert.status, insert.committed) for insert in inserts] == [(None, True), (409, False)]
    assert (orders.ship(), orders.ship()) == ("1", None)


def test_an_order_that_was_not_stored_is_sent_again(rowkey_server: Server, orders: Orders) -> None:
    with rowkey_server.inject(Fault.on("InsertEntity").nth(1).close_before_commit()):
        orders.place("ada", "1", "lamp")
    assert len(rowkey_server.journal(operation="InsertEntity").committed()) == 1


def test_a_taken_number_is_not_mistaken_for_a_lost_answer(orders: Orders) -> None:
    orders.place("ada", "1", "lamp")
    with pytest.raises(NumberTaken):
        orders.place("ada", "1", "desk")


def test_a_message_that_was_put_twice_ships_the_order_once(rowkey_server: Server, orders: Orders) -> None:
    with rowkey_server.inject(Fault.on("PutMessage").nth(1).close_after_commit()):
        with pytest.raises(ServiceResponseError):
            orders.place("ada", "1", "lamp")
    # The customer tries again.
    orders.place("ada", "1", "lamp")
    assert len(rowkey_server.journal(operation="PutMessage").committed()) == 2
    assert (orders.ship(), orders.ship(), orders.ship()) == ("1", None, None)


def test_a_busy_account_costs_no_order(rowkey_server: Server, orders: Orders) -> None:
    rowkey_server.clock.freeze()
    with rowkey_server.throttle(entities_per_partition=1):
        orders.place("ada", "1", "lamp")
        with pytest.raises(Busy):
            orders.place("ada", "2", "desk")
        # A second later there is room again, and no test waits for it.
        rowkey_server.clock.advance(timedelta(seconds=1))
        orders.place("ada", "2", "desk")


def test_the_order_of_a_worker_that_was_killed_is_shipped_by_another(rowkey_server: Server, orders: Orders) -> None:
    orders.place("ada", "1", "lamp")
    with rowkey_server.inject(Fault.on("GetEntity").nth(1).close_before_commit()):
        with pytest.raises(ServiceResponseError):
            orders.ship()
    assert orders.ship() is None, "the message is hidden for 30 s"
    rowkey_server.clock.advance(timedelta(seconds=31))
    assert orders.ship() == "1"


def test_each_test_begins_with_an_empty_server(rowkey_server: Server, orders: Orders) -> None:
    assert rowkey_server.journal().count("InsertEntity") == 0
    assert orders.ship() is None


def test_one_server_can_be_emptied_within_a_test(rowkey_server: Server, orders: Orders) -> None:
    orders.place("ada", "1", "lamp")
    rowkey_server.reset()
    orders.create()
    assert orders.ship() is None
