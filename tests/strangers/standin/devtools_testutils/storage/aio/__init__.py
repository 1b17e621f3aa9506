from ...credentials import bearer_credential
from ...fake_credentials_async import AsyncFakeCredential
from .. import GenericTestProxyParametrize1, GenericTestProxyParametrize2, StorageRecordedTestCase


class AsyncStorageRecordedTestCase(StorageRecordedTestCase):
    def get_credential(self, client_class, is_async=True, **_):
        return bearer_credential(is_async)

    def generate_oauth_token(self):
        return bearer_credential(True)

    def generate_fake_token(self):
        return AsyncFakeCredential()
