"""Stands in for `azure-identity`, of which the suites take one name."""

from devtools_testutils.credentials import Credential as DefaultAzureCredential
