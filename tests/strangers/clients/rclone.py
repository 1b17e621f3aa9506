"""rclone's azureblob backend, with its settings for emulators: local files copied, synced, compared, deleted."""

import pathlib
import tempfile

from checks import BLOB, check, command, main

folder = pathlib.Path(tempfile.mkdtemp())
# With the account that every emulator has.
REMOTE = f":azureblob,use_emulator,endpoint='{BLOB}'"


def rclone(*words):
    return command("rclone", "--config", "/dev/null", "--retries", "1", "--low-level-retries", "2", *words)


def remote(path):
    return f"{REMOTE}:strangers/{path}"


def files(path):
    return sorted(rclone("lsf", "--recursive", "--files-only", remote(path)).splitlines())


def make(name, data):
    path = folder / "source" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@check
def make_container():
    rclone("mkdir", f"{REMOTE}:strangers")
    assert "strangers/" in rclone("lsf", f"{REMOTE}:").split()


@check
def copy():
    for number in range(30):
        make(f"folder {number % 3}/file-{number:02}.txt", b"%d" % number * number)
    make("ü+%&=.txt", b"named oddly")
    rclone("copy", folder / "source", remote("tree"))
    assert len(files("tree")) == 31, files("tree")


@check
def check_sums():
    rclone("check", folder / "source", remote("tree"))


@check
def copy_large_in_blocks():
    (folder / "large").write_bytes(bytes(range(256)) * 50_000)
    rclone("copyto", folder / "large", remote("large"), "--azureblob-chunk-size", "4M")
    rclone("copyto", remote("large"), folder / "back")
    assert (folder / "back").read_bytes() == (folder / "large").read_bytes()


@check
def sync_changes():
    make("folder 0/new.txt", b"new")
    (folder / "source/folder 1/file-01.txt").unlink()
    rclone("sync", folder / "source", remote("tree"))
    assert "folder 0/new.txt" in files("tree") and "folder 1/file-01.txt" not in files("tree")
    rclone("check", folder / "source", remote("tree"))


@check
def copy_on_the_server():
    rclone("copy", remote("tree"), remote("copied"))
    assert files("copied") == files("tree")


@check
def modification_times():
    rclone("touch", "--timestamp", "2020-01-02T03:04:05", remote("tree/ü+%&=.txt"))
    assert "2020-01-02 03:04:05" in rclone("lsl", remote("tree/ü+%&=.txt"))


@check
def read_a_range():
    assert rclone("cat", "--offset", "2", "--count", "3", remote("tree/ü+%&=.txt")) == "med"


@check
def stream_of_unknown_length():
    import subprocess

    words = ["rclone", "--config", "/dev/null", "rcat", remote("streamed")]
    subprocess.run(words, input=bytes(3 << 20), check=True, capture_output=True, timeout=60)
    assert rclone("size", remote("streamed")).count("3 MiB") == 1


@check
def set_tier():
    rclone("settier", "Cool", remote("large"))
    assert rclone("lsf", "--format", "pT", remote("large")).strip().endswith("Cool")


@check
def public_access():
    rclone("mkdir", f"{REMOTE},public_access=container:public")


@check
def move():
    rclone("moveto", remote("large"), remote("moved"))
    assert "moved" in files("") and "large" not in files("")


@check
def delete():
    rclone("delete", remote("copied"))
    assert files("copied") == []


@check
def purge():
    rclone("purge", f"{REMOTE}:strangers")
    assert "strangers/" not in rclone("lsf", f"{REMOTE}:").split()


main()
