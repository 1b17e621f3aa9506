from .. import StorageManagementClient
