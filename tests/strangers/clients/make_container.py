"""Makes the containers whose names are the arguments."""

import os
import sys

from azure.storage.blob import BlobServiceClient

service = BlobServiceClient(os.environ["STRANGERS_BLOB"], credential=os.environ["STRANGERS_KEY"])
for name in sys.argv[1:]:
    service.create_container(name)
