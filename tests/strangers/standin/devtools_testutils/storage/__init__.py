"""What the suites of queues and blobs share."""

import io
import logging
import math
import random
from datetime import datetime, timedelta

from .. import AzureRecordedTestCase, accounts
from ..credentials import FakeTokenCredential, bearer_credential


def _transparent():
    """Where the SDK's wrapper hides parameters from pytest, this one does not."""
    return lambda test: test


GenericTestProxyParametrize1 = GenericTestProxyParametrize2 = _transparent


class StorageRecordedTestCase(AzureRecordedTestCase):
    logger = logging.getLogger("azure.storage")

    def setup_class(cls):
        cls.sas_token = "?sv=2020-02-10&ss=b&srt=o&sp=rl&se=2030-01-01T00:00:00Z&sig=fake"

    def setup_method(self, _):
        self.enable_logging()

    def enable_logging(self):
        handler = logging.StreamHandler()
        self.logger.handlers = [handler]
        self.logger.setLevel(logging.DEBUG)
        self.logger.propagate, self.logger.disabled = True, False

    configure_logging = enable_logging

    def account_url(self, account, service):
        return accounts.url(account, service)

    def connection_string(self, account, key):
        return f"DefaultEndpointsProtocol=https;AcCounTName={account};AccOuntKey={key};EndpoIntSuffix=core.windows.net"

    def get_random_bytes(self, size):
        return b"a" * size

    def get_random_text_data(self, size):
        chosen = random.Random(self.qualified_test_name)
        text = ""
        while len(text) < size:
            text += " " + chosen.choice(["hello", "world", "python"])
        return text

    def get_datetime_variable(self, variables, name, moment):
        return moment

    def generate_oauth_token(self):
        return bearer_credential(False)

    def generate_fake_token(self):
        return FakeTokenCredential()

    def assertNamedItemInContainer(self, container, item_name, msg=None):
        assert any(_is_named(item, item_name) for item in container), f"{item_name!r} not found"

    def assertNamedItemNotInContainer(self, container, item_name, msg=None):
        assert not any(_is_named(item, item_name) for item in container), f"{item_name!r} found"

    def assert_upload_progress(self, size, max_chunk_size, progress, unknown_size=False):
        assert len(progress) == math.ceil(size / max_chunk_size)
        for sent, total in progress:
            assert sent % max_chunk_size in (0, size % max_chunk_size)
            assert total == (None if unknown_size else size)

    def assert_download_progress(self, size, max_chunk_size, max_get_size, progress):
        rest = size - max_get_size
        assert len(progress) == 1 + max(0, math.ceil(rest / max_chunk_size))
        for received, total in progress[1:]:
            assert received % max_chunk_size in (0, rest % max_chunk_size)
            assert total == size


def _is_named(item, name):
    if isinstance(item, str):
        return item == name
    if isinstance(item, dict) and "name" in item:
        return item["name"] == name
    return item.name == name or getattr(item, "snapshot", None) == name


class LogCaptured:
    """What the SDK logs while a test looks."""

    def __init__(self, test_case=None):
        self.test_case = test_case

    def __enter__(self):
        self.test_case.enable_logging()
        self.stream = io.StringIO()
        self.handler = logging.StreamHandler(self.stream)
        self.test_case.logger.addHandler(self.handler)
        return self.stream

    def __exit__(self, *_):
        self.test_case.logger.removeHandler(self.handler)
        self.stream.close()
