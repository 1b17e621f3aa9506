"""obstore, the Python binding of the Rust crate object_store."""

import obstore
from checks import ACCOUNT, BLOB, KEY, check, container, main
from obstore.exceptions import AlreadyExistsError, NotFoundError, PreconditionError
from obstore.store import AzureStore

container("obstore")
store = AzureStore("obstore", account_name=ACCOUNT, account_key=KEY, endpoint=BLOB, client_options={"allow_http": True})


@check
def put_and_get():
    put = obstore.put(store, "a/b c+ü.txt", b"hello")
    got = obstore.get(store, "a/b c+ü.txt")
    assert bytes(got.bytes()) == b"hello" and got.meta["e_tag"] == put["e_tag"]


@check
def attributes():
    obstore.put(store, "attributes", b"x", attributes={"Content-Type": "text/plain", "Cache-Control": "no-store"})
    found = obstore.get(store, "attributes").attributes
    assert found["Content-Type"] == "text/plain" and found["Cache-Control"] == "no-store"


@check
def tags():
    obstore.put(store, "tags", b"x", tags={"colour": "green"})


@check
def ranges():
    obstore.put(store, "ranges", bytes(range(256)))
    assert bytes(obstore.get_range(store, "ranges", start=10, end=20)) == bytes(range(10, 20))
    parts = obstore.get_ranges(store, "ranges", starts=[0, 100], ends=[5, 105])
    assert [bytes(it) for it in parts] == [bytes(range(5)), bytes(range(100, 105))]


@check
def create_if_absent():
    obstore.put(store, "once", b"1", mode="create")
    try:
        obstore.put(store, "once", b"2", mode="create")
    except AlreadyExistsError:
        return
    raise AssertionError("written twice")


@check
def update_if_unchanged():
    first = obstore.put(store, "changing", b"1")
    obstore.put(store, "changing", b"2", mode={"e_tag": first["e_tag"]})
    try:
        obstore.put(store, "changing", b"3", mode={"e_tag": first["e_tag"]})
    except PreconditionError:
        return
    raise AssertionError("an old version was replaced")


@check
def multipart():
    data = bytes(11 << 20)
    obstore.put(store, "large", data, use_multipart=True, chunk_size=5 << 20)
    assert obstore.head(store, "large")["size"] == len(data)


@check
def streamed_writer():
    with obstore.open_writer(store, "streamed", buffer_size=1 << 20) as file:
        for _ in range(5):
            file.write(bytes(1 << 20))
    assert obstore.head(store, "streamed")["size"] == 5 << 20


@check
def listing_in_pages():
    for number in range(60):
        obstore.put(store, f"list/{number % 3}/{number:02}", b"")
    names = [it["path"] for page in obstore.list(store, "list", chunk_size=7) for it in page]
    assert len(names) == 60, len(names)
    delimited = obstore.list_with_delimiter(store, "list")
    assert list(delimited["common_prefixes"]) == ["list/0", "list/1", "list/2"]
    after = [it["path"] for page in obstore.list(store, "list", offset="list/1/99") for it in page]
    assert len(after) == 20, len(after)


@check
def copy_and_rename():
    obstore.put(store, "from", b"moved")
    obstore.copy(store, "from", "copied")
    obstore.rename(store, "from", "renamed")
    assert bytes(obstore.get(store, "renamed").bytes()) == b"moved"
    assert bytes(obstore.get(store, "copied").bytes()) == b"moved"
    try:
        obstore.copy(store, "copied", "renamed", overwrite=False)
    except AlreadyExistsError:
        return
    raise AssertionError("overwritten")


@check
def delete_in_bulk():
    names = [f"bulk/{number:03} ü" for number in range(300)]
    for name in names:
        obstore.put(store, name, b"")
    obstore.delete(store, names)
    assert [it for page in obstore.list(store, "bulk") for it in page] == []


@check
def delete_what_is_missing():
    try:
        obstore.delete(store, "never-there")
    except (NotFoundError, FileNotFoundError):
        pass


@check
def sign():
    import urllib.request
    from datetime import timedelta

    obstore.put(store, "signed", b"hello")
    url = obstore.sign(store, "GET", "signed", timedelta(minutes=5))
    assert urllib.request.urlopen(url, timeout=10).read() == b"hello"


main()
