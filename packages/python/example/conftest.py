"""A service for each test. The fixture `rowkey_server` comes with the package."""

import pytest
from orders import Orders
from rowkey_server import Server


@pytest.fixture
def orders(rowkey_server: Server) -> Orders:
    # Without the attempts of the SDK, so that a test sees each answer.
    orders = Orders(rowkey_server.connection_string, retry_total=0)
    orders.create()
    return orders
