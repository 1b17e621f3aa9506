"""Takes orders: each is an entity, and a message for the warehouse, which ships each order once."""

from __future__ import annotations

from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.data.tables import TableClient, UpdateMode
from azure.storage.queue import QueueClient


class Busy(Exception):
    """The storage account is throttled. Nothing is lost if the customer tries again later."""


class NumberTaken(Exception):
    """Another order has this number."""


class Orders:
    """The orders of one account. `options` go to the clients of the Azure SDK."""

    def __init__(self, connection_string: str, **options: Any) -> None:
        self._orders = TableClient.from_connection_string(connection_string, "orders", **options)
        self._shipments = QueueClient.from_connection_string(connection_string, "shipments", **options)

    def create(self) -> None:
        """Creates the table and the queue."""
        self._orders.create_table()
        self._shipments.create_queue()

    def place(self, customer: str, number: str, item: str) -> None:
        """Stores an order. Placing the same order again has no effect but another message, which `ship` ignores."""
        order = {"PartitionKey": customer, "RowKey": number, "item": item, "state": "placed"}
        for attempts_left in (2, 1, 0):
            try:
                self._orders.create_entity(order)
                break
            except ResourceExistsError:
                # Either an earlier attempt stored it and its answer was lost, or the number is taken.
                if self._orders.get_entity(customer, number)["item"] != item:
                    raise NumberTaken(f"{customer} has another order {number}") from None
                break
            except (ServiceRequestError, ServiceResponseError):
                # Whether it was stored is unknown. The next attempt finds out.
                if not attempts_left:
                    raise
            except HttpResponseError as error:
                if error.status_code == 503:
                    raise Busy("try again later") from error
                raise
        self._shipments.send_message(f"{customer}/{number}")

    def ship(self) -> str | None:
        """Ships the next order, and returns its number, or `None` if there is nothing to do."""
        message = self._shipments.receive_message(visibility_timeout=30)
        if message is None:
            return None
        customer, number = message.content.split("/")
        order = self._orders.get_entity(customer, number)
        shipped = None
        if order["state"] == "placed":
            try:
                self._orders.update_entity(
                    order | {"state": "shipped"},
                    UpdateMode.REPLACE,
                    etag=order.metadata["etag"],
                    match_condition=MatchConditions.IfNotModified,
                )
                shipped = number
            except ResourceModifiedError:
                # Another worker has shipped it.
                pass
        self._shipments.delete_message(message)
        return shipped
