"""Stands in for Docker's library: adlfs's fixture starts Azurite in a container, but the server runs already."""

from unittest.mock import MagicMock

from_env = MagicMock
