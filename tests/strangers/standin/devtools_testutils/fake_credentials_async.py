from .credentials import FakeTokenCredential


class AsyncFakeCredential(FakeTokenCredential):
    async def get_token(self, *_, **__):
        self.get_token_count += 1
        return self.token

    async def close(self):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass
