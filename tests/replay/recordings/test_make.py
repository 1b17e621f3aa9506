"""What `make` does, on repositories of its own: python3 tests/replay/recordings/test_make.py"""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
make = SourceFileLoader("make", str(HERE / "make")).load_module()

from cassette import interactions  # noqa: E402
from exchanges import chosen, converted, digest, item, read, read_selection  # noqa: E402

CASSETTE = """\
interactions:
- request:
    body: !!python/unicode "{\\"TableName\\":\\
      \\ \\"fruit\\"}"
    headers:
      Accept: [application/json;odata=nometadata]
      User-Agent: [a client (of
          two lines)]
    method: POST
    uri: https://account.table.core.windows.net/Tables
  response:
    body: {string: !!python/unicode ''}
    headers:
      Date: ['Fri, 10 Nov 2017 02:43:14 GMT']
      Location: ['https://account.table.core.windows.net/Tables(''fruit'')']
      Server: [Windows-Azure-Table/1.0]
      x-ms-request-id: [2506f53b-0002-00bf-77cd-59b70c000000]
    status: {code: 204, message: No Content}
- request:
    body: null
    headers:
      Accept:
      - '*/*'
    method: GET
    uri: https://account-secondary.table.core.windows.net/fruit()?$filter=a%20eq%201
  response:
    body:
      string: !!binary |
        /wD+
    headers:
      date:
      - Fri, 10 Nov 2017 02:43:15 GMT
    status:
      code: 200
      message: OK
- request:
    body: 'first

      second ''quoted'' and
      continued'
    headers: {}
    method: PUT
    uri: https://account.table.core.windows.net/fruit(PartitionKey='a',RowKey='b')
  response:
    body: {string: a plain text that goes
        on in the next line}
    headers:
      date: ['Fri, 10 Nov 2017 02:43:16 GMT']
    status: {code: 204, message: 'No: Content'}
version: 1
"""
FOLDER = "tests/recordings/"


class Cassettes(unittest.TestCase):
    def test_scalars_of_all_styles_are_read(self) -> None:
        first, second, third = interactions(CASSETTE)
        self.assertEqual(first["request_body"], b'{"TableName": "fruit"}')
        self.assertEqual(first["request_headers"]["user-agent"], "a client (of two lines)")
        self.assertEqual(first["response_body"], b"")
        self.assertEqual(second["response_body"], b"\xff\x00\xfe")
        self.assertEqual(third["request_body"], b"first\nsecond 'quoted' and continued")
        self.assertEqual(third["response_body"], b"a plain text that goes on in the next line")
        self.assertEqual([it["status"] for it in (first, second, third)], [204, 200, 204])

    def test_the_content_of_a_recorded_stream_is_its_body(self) -> None:
        stream = "!!python/object/new:_io.BytesIO\n      state: !!python/tuple\n      - !!binary |\n        YWI=\n      - 0"
        [found] = interactions(CASSETTE.split("- request:\n    body: null")[0].replace(
            '!!python/unicode "{\\"TableName\\":\\\n      \\ \\"fruit\\"}"', stream))
        self.assertEqual(found["request_body"], b"ab")

    def test_other_texts_are_no_cassettes(self) -> None:
        for text in ("", "interactions: 3\n", "not: {closed\n", "- a\n", CASSETTE[:300]):
            with self.assertRaises(ValueError):
                list(interactions(text))


class Exchanges(unittest.TestCase):
    def setUp(self) -> None:
        self.recorded = [converted(it) for it in interactions(CASSETTE)]

    def test_headers_of_the_connection_and_identifiers_are_dropped(self) -> None:
        first = self.recorded[0]
        self.assertEqual(first["request"]["headers"], {"accept": "application/json;odata=nometadata"})
        self.assertEqual(first["response"]["headers"]["x-ms-request-id"], "*")
        self.assertNotIn("server", first["response"]["headers"])

    def test_the_secondary_and_the_encoding_are_named(self) -> None:
        extra = {"host": "account-secondary.table.core.windows.net", "resp_body_encoding": "base64"}
        self.assertEqual(self.recorded[1]["extra"], extra)
        self.assertEqual(self.recorded[1]["request"]["path_and_query"], "/fruit()?$filter=a%20eq%201")

    def test_a_selection_chooses_what_it_was_made_of(self) -> None:
        second, third = ("".join(item(it | {"extra": {"auth": "key"}})) for it in self.recorded[1:])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "table.txt"
            path.write_text(f"in {FOLDER}\ntest_a.test_b 2017-11-10 00000000 +fruit {second}S {third}.\n")
            runs = read_selection(path)
        [run] = chosen("table", runs, self.recorded)
        self.assertEqual([it["request"]["method"] for it in run], ["POST", "GET", "PUT"])
        self.assertEqual([it["extra"]["auth"] for it in run], ["key", "sas", "key"])
        self.assertEqual([it["extra"].get("setup", False) for it in run], [True, False, True])
        self.assertEqual(runs[0].items, [item(it) for it in run])
        with self.assertRaises(LookupError):
            chosen("table", runs, self.recorded[:2])


class Making(unittest.TestCase):
    """The whole program: the version that was committed after the recording, and what is missing."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.repository, self.output, self.selection = (self.root / it for it in ("repository", "output", "selection"))
        self.selection.mkdir()
        self.git("init", "--quiet", str(self.repository))
        for name in ("allowFilter", "allowAnySHA1InWant"):
            self.git("-C", str(self.repository), "config", f"uploadpack.{name}", "true")
        older = CASSETTE.split("- request:\n    body: null")[0]
        for day, text in (("2017-11-01", older), ("2017-11-11", CASSETTE), ("2018-01-01", older), ("2019-01-01", None)):
            self.commit(day, text)
        run = [converted(it) | {"extra": {"auth": "key"}} for it in interactions(CASSETTE)]
        run[1]["extra"] |= converted(list(interactions(CASSETTE))[1])["extra"]
        self.items = " ".join(map(item, run))
        self.digest = digest(run)

    def git(self, *words: str, date: str = "") -> None:
        who = {f"GIT_{who}_{what}": "a@b.invalid" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        when = {f"GIT_{who}_DATE": f"{date}T12:00:00Z" for who in ("AUTHOR", "COMMITTER")} if date else {}
        subprocess.run(["git", *words], check=True, env=os.environ | who | when)

    def commit(self, day: str, text: str | None) -> None:
        file = self.repository / FOLDER / "test_a.test_b.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            file.unlink()
        else:
            file.write_text(text)
        self.git("-C", str(self.repository), "add", "--all")
        self.git("-C", str(self.repository), "commit", "--quiet", "--message", day, date=day)

    def run_make(self, digest: str, *words: str) -> tuple[int, str]:
        lines = f"in {FOLDER}\ntest_a.test_b 2017-11-10 {digest} {self.items}\n"
        (self.selection / "table-storage--own.txt").write_text(lines)
        make.REPOSITORIES = {"own": self.repository.as_uri()}
        sys.argv = ["make", "--output", str(self.output), "--selection", str(self.selection), *words]
        with contextlib.redirect_stdout(io.StringIO()) as printed, self.assertRaises(SystemExit) as exit:
            make.main()
        return exit.exception.code, printed.getvalue()

    def test_the_version_is_found_that_has_what_is_selected(self) -> None:
        code, printed = self.run_make(self.digest)
        self.assertEqual(code, 0, printed)
        self.assertIn("3 exchanges, 1 of 1 runs as selected", printed)
        [run] = read(self.output / "table-storage--own.jsonl.gz")
        self.assertEqual([(it["seq"], it["extra"]["run"]) for it in run], [(0, 0), (1, 0), (2, 0)])

    def test_what_differs_from_the_selection_fails(self) -> None:
        code, printed = self.run_make("00000000")
        self.assertEqual(code, 1)
        self.assertIn("not as selected: tests/recordings/test_a.test_b.yaml", printed)

    def test_what_is_not_found_fails(self) -> None:
        self.items += " 0000"
        code, printed = self.run_make(self.digest)
        self.assertEqual(code, 1)
        self.assertIn("not found: tests/recordings/test_a.test_b.yaml, recorded on 2017-11-10", printed)
        self.assertEqual(self.run_make(self.digest, "--verify")[0], 1)


if __name__ == "__main__":
    unittest.main()
