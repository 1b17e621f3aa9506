"""Tables: create, delete, list, filter, and the names that are refused."""

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.data.tables import TableClient

from conftest import code_of, entity, fresh_name


def names(tables):
    return [table.name for table in tables]


def test_a_created_table_is_listed_with_the_casing_it_was_created_with(service):
    name = fresh_name("CamelCase")
    service.create_table(name)
    try:
        assert name in names(service.list_tables())
    finally:
        service.delete_table(name)


def test_a_table_client_creates_and_deletes_its_table(account, table_name):
    with TableClient.from_connection_string(account.connection_string, table_name) as client:
        assert client.create_table().name == table_name
        client.create_entity(entity())
        client.delete_table()
        with pytest.raises(ResourceNotFoundError):
            client.get_entity("p", "r")


def test_creating_a_table_twice_is_refused(service, table):
    with pytest.raises(ResourceExistsError) as caught:
        service.create_table(table.table_name)
    assert caught.value.status_code == 409
    assert code_of(caught.value) == "TableAlreadyExists"


def test_table_names_differing_in_case_are_one_table(service, table):
    with pytest.raises(ResourceExistsError):
        service.create_table(table.table_name.upper())
    table.create_entity(entity(a=1))
    assert service.get_table_client(table.table_name.upper()).get_entity("p", "r")["a"] == 1


def test_create_if_not_exists_takes_an_existing_table(service, table_name):
    created = service.create_table_if_not_exists(table_name)
    created.create_entity(entity(a=1))
    taken = service.create_table_if_not_exists(table_name)
    assert taken.get_entity("p", "r")["a"] == 1
    service.delete_table(table_name)


def test_deleting_a_missing_table_is_not_an_error_to_the_sdk(service, table_name):
    service.delete_table(table_name)


def test_a_deleted_table_leaves_the_listing(service, table_name):
    service.create_table(table_name)
    service.delete_table(table_name)
    assert table_name not in names(service.list_tables())


def test_the_name_of_a_deleted_table_is_blocked_for_a_while(service, table_name):
    service.create_table(table_name)
    service.delete_table(table_name)
    with pytest.raises(HttpResponseError) as caught:
        service.create_table(table_name)
    assert caught.value.status_code == 409
    assert code_of(caught.value) == "TableBeingDeleted"


def test_tables_are_found_by_filter_and_parameters(service):
    head = fresh_name("q")
    made = [f"{head}{suffix}" for suffix in ("a", "b", "c")]
    for name in made:
        service.create_table(name)
    try:
        found = service.query_tables("TableName eq @name", parameters={"name": made[1]})
        assert names(found) == [made[1]]
        found = service.query_tables(f"TableName ge '{head}' and TableName lt '{head}z'")
        assert names(found) == made
        found = service.query_tables(f"TableName gt '{head}a' and not (TableName eq '{head}c') and TableName lt '{head}z'")
        assert names(found) == [made[1]]
    finally:
        for name in made:
            service.delete_table(name)


def test_a_listing_of_tables_comes_in_pages_and_resumes_from_a_token(service):
    head = fresh_name("pages")
    made = [f"{head}{number}" for number in range(5)]
    for name in made:
        service.create_table(name)
    try:
        condition = f"TableName ge '{head}' and TableName lt '{head}z'"
        pages = service.query_tables(condition, results_per_page=2).by_page()
        first = names(next(pages))
        assert first == made[:2]
        resumed = service.query_tables(condition, results_per_page=2).by_page(
            continuation_token=pages.continuation_token
        )
        assert [names(page) for page in resumed] == [made[2:4], made[4:]]
    finally:
        for name in made:
            service.delete_table(name)


@pytest.mark.parametrize("name", ["1leading", "with-dash", "under_score", "dotted.name"])
def test_a_name_with_forbidden_characters_is_refused(service, name):
    # The SDK turns exactly this answer of the service into a ValueError.
    with pytest.raises(ValueError, match="Storage table names must be alphanumeric"):
        service.create_table(name)


@pytest.mark.parametrize("name", ["ab", "a" * 64])
def test_a_name_of_the_wrong_length_is_refused(service, name):
    with pytest.raises(ValueError, match="Storage table names must be alphanumeric"):
        service.create_table(name)


def test_names_of_three_and_of_sixty_three_characters_are_accepted(service):
    for name in ("x" + fresh_name()[1:3], fresh_name("y").ljust(63, "z")):
        service.create_table_if_not_exists(name)
        assert name.lower() in [listed.lower() for listed in names(service.list_tables())]
        service.delete_table(name)
