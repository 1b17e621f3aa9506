"""Stands in for `azure-mgmt-storage`: accounts are not managed by what an emulator speaks."""


class StorageManagementClient:
    def __init__(self, *_, **__):
        raise NotImplementedError("the management API is no part of a storage emulator")
