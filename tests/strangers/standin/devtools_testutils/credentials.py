"""Bearer tokens of the right shape, which no one signed: emulators check everything else."""

import base64
import json
import time

from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError


def _unsigned_token():
    def part(of):
        return base64.urlsafe_b64encode(json.dumps(of).encode()).rstrip(b"=").decode()

    now, who = int(time.time()), "00000000-0000-0000-0000-000000000000"
    claims = {"aud": "https://storage.azure.com", "iss": f"https://sts.windows.net/{who}/", "tid": who, "oid": who}
    claims |= {"iat": now - 60, "nbf": now - 60, "exp": now + 3600, "ver": "1.0"}
    return f"{part({'alg': 'RS256', 'typ': 'JWT'})}.{part(claims)}.{part('unsigned')}", now + 3600


class Credential:
    def __init__(self, *_, exclude_environment_credential=False, **__):
        self.found = not exclude_environment_credential

    def _token(self):
        if not self.found:
            raise ClientAuthenticationError(message="every credential is excluded")
        return AccessToken(*_unsigned_token())

    def get_token(self, *scopes, **_):
        return self._token()


class AsyncCredential(Credential):
    async def get_token(self, *scopes, **_):
        return self._token()

    async def close(self):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass


class FakeTokenCredential:
    """What tests use to be refused."""

    def __init__(self):
        self.token = AccessToken("YOU SHALL NOT PASS", 0)
        self.get_token_count = 0

    def get_token(self, *_, **__):
        self.get_token_count += 1
        return self.token


def bearer_credential(is_async):
    return AsyncCredential() if is_async else Credential()
