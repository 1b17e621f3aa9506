"""The service itself: properties, CORS, statistics, and the policies kept with a table."""

import urllib.error
import urllib.request
from datetime import datetime, timezone

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.data.tables import (
    TableAccessPolicy,
    TableAnalyticsLogging,
    TableCorsRule,
    TableMetrics,
    TableRetentionPolicy,
    TableServiceClient,
)
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from conftest import code_of, entity

UTC = timezone.utc


@pytest.fixture
def restored(service):
    """Puts the account's properties back to what a new account has."""
    yield
    off = TableRetentionPolicy(enabled=False)
    service.set_service_properties(
        analytics_logging=TableAnalyticsLogging(read=False, write=False, delete=False, retention_policy=off),
        hour_metrics=TableMetrics(enabled=False, retention_policy=off),
        minute_metrics=TableMetrics(enabled=False, retention_policy=off),
        cors=[],
    )


def test_logging_and_metrics_are_set_and_read(service, restored):
    five = TableRetentionPolicy(enabled=True, days=5)
    service.set_service_properties(
        analytics_logging=TableAnalyticsLogging(read=True, write=True, delete=True, retention_policy=five),
        hour_metrics=TableMetrics(enabled=True, include_apis=True, retention_policy=five),
        minute_metrics=TableMetrics(enabled=True, include_apis=False, retention_policy=five),
    )
    properties = service.get_service_properties()
    logging = properties["analytics_logging"]
    assert (logging.read, logging.write, logging.delete) == (True, True, True)
    assert logging.version == "1.0"
    assert (logging.retention_policy.enabled, logging.retention_policy.days) == (True, 5)
    assert (properties["hour_metrics"].enabled, properties["hour_metrics"].include_apis) == (True, True)
    assert (properties["minute_metrics"].enabled, properties["minute_metrics"].include_apis) == (True, False)


def test_sections_that_are_not_sent_are_left_alone(service, restored):
    three = TableRetentionPolicy(enabled=True, days=3)
    service.set_service_properties(
        analytics_logging=TableAnalyticsLogging(read=True, retention_policy=three),
        cors=[TableCorsRule(["*"], ["GET"])],
    )
    service.set_service_properties(hour_metrics=TableMetrics(enabled=True, include_apis=True, retention_policy=three))
    properties = service.get_service_properties()
    assert properties["analytics_logging"].read
    assert properties["analytics_logging"].retention_policy.days == 3
    assert properties["hour_metrics"].enabled
    assert len(properties["cors"]) == 1


def test_cors_rules_are_set_and_read(service, restored):
    service.set_service_properties(
        cors=[
            TableCorsRule(["www.xyz.com"], ["GET"]),
            TableCorsRule(
                ["www.abc.com", "www.def.com"],
                ["GET", "PUT"],
                max_age_in_seconds=500,
                exposed_headers=["x-ms-meta-data*", "x-ms-meta-source*"],
                allowed_headers=["x-ms-meta-abc", "x-ms-meta-data*"],
            ),
        ]
    )
    first, second = service.get_service_properties()["cors"]
    assert (first.allowed_origins, first.allowed_methods, first.max_age_in_seconds) == (["www.xyz.com"], ["GET"], 0)
    assert second.allowed_origins == ["www.abc.com", "www.def.com"]
    assert second.allowed_methods == ["GET", "PUT"]
    assert second.max_age_in_seconds == 500
    assert second.exposed_headers == ["x-ms-meta-data*", "x-ms-meta-source*"]
    assert second.allowed_headers == ["x-ms-meta-abc", "x-ms-meta-data*"]


def test_a_sixth_cors_rule_is_refused(service, restored):
    rule = TableCorsRule(["www.xyz.com"], ["GET"])
    service.set_service_properties(cors=[rule] * 5)
    with pytest.raises(HttpResponseError) as caught:
        service.set_service_properties(cors=[rule] * 6)
    assert caught.value.status_code == 400
    assert code_of(caught.value) == "InvalidXmlDocument"


def test_retention_over_a_year_is_refused(service, restored):
    too_long = TableMetrics(
        enabled=True, include_apis=True, retention_policy=TableRetentionPolicy(enabled=True, days=366)
    )
    with pytest.raises(HttpResponseError) as caught:
        service.set_service_properties(hour_metrics=too_long)
    assert caught.value.status_code == 400
    assert code_of(caught.value) == "InvalidXmlDocument"


def preflight(account, origin, method, headers="content-type"):
    request = urllib.request.Request(
        f"{account.endpoint}/Tables",
        method="OPTIONS",
        headers={
            "Origin": origin,
            "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": headers,
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers


def test_a_browser_is_let_in_by_a_matching_rule_only(service, account, restored):
    service.set_service_properties(
        cors=[
            TableCorsRule(
                ["http://app.example"],
                ["GET", "POST"],
                max_age_in_seconds=60,
                exposed_headers=["x-ms-meta-*"],
                allowed_headers=["content-type", "x-ms-*"],
            )
        ]
    )
    status, headers = preflight(account, "http://app.example", "GET", "content-type,x-ms-version")
    assert status == 200
    assert headers["Access-Control-Allow-Origin"] == "http://app.example"
    assert "GET" in headers["Access-Control-Allow-Methods"]
    assert headers["Access-Control-Max-Age"] == "60"
    assert preflight(account, "http://other.example", "GET")[0] == 403
    assert preflight(account, "http://app.example", "DELETE")[0] == 403
    assert preflight(account, "http://app.example", "GET", "authorization")[0] == 403


def test_an_answer_to_a_listed_origin_carries_the_cors_headers(service, account, restored):
    service.set_service_properties(
        cors=[TableCorsRule(["http://app.example"], ["GET"], exposed_headers=["x-ms-meta-*"])]
    )
    seen = []
    list(
        service.list_tables(
            headers={"Origin": "http://app.example"},
            raw_response_hook=lambda response: seen.append(response.http_response.headers),
        )
    )
    assert seen[0]["Access-Control-Allow-Origin"] == "http://app.example"
    assert "x-ms-request-id" in seen[0]["Access-Control-Expose-Headers"]
    list(service.list_tables(raw_response_hook=lambda response: seen.append(response.http_response.headers)))
    assert "Access-Control-Allow-Origin" not in seen[-1]


def secondary(account):
    # The SDK derives a secondary host only for host-style endpoints; a path-style one is named outright.
    return TableServiceClient(
        account.secondary_endpoint,
        credential=account.credential,
        secondary_hostname=account.secondary_endpoint.split("/")[2],
    )


def test_statistics_are_served_by_the_secondary(account):
    with secondary(account) as client:
        stats = client.get_service_stats()
    assert stats["geo_replication"]["status"] in ("live", "bootstrap", "unavailable")


def test_statistics_are_served_where_the_library_itself_looks_for_the_secondary(service):
    """Of a path-style endpoint that is the secondary's path and then the primary's."""
    assert service.get_service_stats()["geo_replication"]["status"] in ("live", "bootstrap", "unavailable")


def test_the_libraries_of_queues_and_blobs_find_the_secondary(account):
    for client, endpoint in ((QueueServiceClient, account.queue_endpoint), (BlobServiceClient, account.blob_endpoint)):
        host = account.secondary_of(endpoint).split("://")[1]
        with client(endpoint, credential=account.key_credential, secondary_hostname=host) as secondary_too:
            assert secondary_too.get_service_stats()["geo_replication"]["status"] in ("live", "bootstrap", "unavailable")


def test_the_secondary_reads_and_refuses_writes(account, table):
    table.create_entity(entity(a=1))
    with secondary(account) as client:
        copy = client.get_table_client(table.table_name)
        if "devstoreaccount1" in account.endpoint:  # a real secondary lags
            assert copy.get_entity("p", "r")["a"] == 1
        with pytest.raises(HttpResponseError, match="Write operations are not allowed") as caught:
            copy.create_entity(entity("other"))
    assert caught.value.status_code == 403


def test_a_request_id_of_the_client_comes_back(service):
    seen = []
    list(
        service.list_tables(
            request_id="0c6f3d5e-0000-0000-0000-000000000001",
            raw_response_hook=lambda response: seen.append(response.http_response.headers),
        )
    )
    assert seen[0]["x-ms-client-request-id"] == "0c6f3d5e-0000-0000-0000-000000000001"
    assert seen[0]["x-ms-request-id"]
    assert seen[0]["x-ms-version"] == "2019-02-02"


# Access policies


def test_a_new_table_has_no_policies(table):
    assert table.get_table_access_policy() == {}


def test_policies_are_set_and_read(table):
    start = datetime(2024, 1, 1, 12, 0, 0, tzinfo=UTC)
    expiry = datetime(2034, 1, 1, 12, 0, 0, tzinfo=UTC)
    table.set_table_access_policy(
        {
            "full": TableAccessPolicy(start=start, expiry=expiry, permission="raud"),
            "read": TableAccessPolicy(permission="r"),
            "times": TableAccessPolicy(expiry=expiry),
            "empty": None,
        }
    )
    policies = table.get_table_access_policy()
    assert list(policies) == ["full", "read", "times", "empty"]
    assert (policies["full"].start, policies["full"].expiry) == (start, expiry)
    assert policies["full"].permission == "raud"
    assert (policies["read"].start, policies["read"].expiry, policies["read"].permission) == (None, None, "r")
    assert (policies["times"].expiry, policies["times"].permission) == (expiry, None)
    assert policies["empty"] is None


def test_setting_no_policies_removes_them(table):
    table.set_table_access_policy({"read": TableAccessPolicy(permission="r")})
    table.set_table_access_policy({})
    assert table.get_table_access_policy() == {}


def test_a_sixth_policy_is_refused(table):
    six = {f"id{number}": TableAccessPolicy(permission="r") for number in range(6)}
    # The SDK turns exactly this answer of the service into a ValueError.
    with pytest.raises(ValueError, match="more than 5 access policies"):
        table.set_table_access_policy(six)


def test_policies_of_a_missing_table_are_not_found(service, table_name):
    missing = service.get_table_client(table_name)
    with pytest.raises(ResourceNotFoundError) as caught:
        missing.get_table_access_policy()
    assert code_of(caught.value) == "TableNotFound"
    with pytest.raises(ResourceNotFoundError) as caught:
        missing.set_table_access_policy({"read": TableAccessPolicy(permission="r")})
    assert code_of(caught.value) == "TableNotFound"
