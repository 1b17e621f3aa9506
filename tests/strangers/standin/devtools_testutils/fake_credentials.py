"""A key of no account."""

STORAGE_ACCOUNT_FAKE_KEY = "bm8gYWNjb3VudCBoYXMgdGhpcyBrZXksIHdoaWNoIGlzIGFzIGxvbmcgYXMgYWxsIG9mIHRoZW0gYXJlIC4uLg=="
