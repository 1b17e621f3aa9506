"""Reads format 2 of rowkey's encryption: a second implementation, from the page on the stored format.

Entities are dictionaries of property to (EDM type, value as text): Binary in base64 (URL-safe, without
padding), DateTime in ticks, everything else as usual.
"""

import base64
import hashlib
import hmac
import struct
import uuid

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap

METADATA = "_RowkeyEncryption"
OF_STORE = {"EntityOp", "IndexName", "PrimaryPartitionKey", "PrimaryRowKey"}
KINDS = ["", "String", "Binary", "Boolean", "Int32", "Int64", "Double", "DateTime", "Guid"]


class Refused(Exception):
    """The entity is not what was sealed here."""


def unbase64(text):
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64.urlsafe_b64encode(data).decode().rstrip("=") != text:
        raise Refused("not canonical")
    return data


def fields(*parts):
    """Each part with its length before it."""
    parts = [part.encode() if isinstance(part, str) else part for part in parts]
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def typed(entity, name, kind):
    """The value of a property of this type."""
    if name not in entity or entity[name][0] != "Edm." + kind:
        raise Refused("missing, or of another type")
    return entity[name][1]


def canonical(edm_type, text):
    """The byte of a type, and the bytes of a value."""
    kind = edm_type.removeprefix("Edm.")
    pack = {"Int32": ">i", "Int64": ">q", "DateTime": ">q"}
    if kind == "String":
        data = text.encode()
    elif kind == "Binary":
        data = unbase64(text)
    elif kind == "Boolean":
        data = bytes([text == "true"])
    elif kind == "Double":
        # The sign of zero does not count.
        data = struct.pack(">d", float(text) + 0.0)
    elif kind == "Guid":
        data = uuid.UUID(text).bytes
    else:
        data = struct.pack(pack[kind], int(text))
    return KINDS.index(kind), data


def of_canonical(kind, data):
    """The EDM type and the text of canonical bytes."""
    name = KINDS[kind]
    if name == "String":
        text = data.decode()
    elif name == "Binary":
        text = base64.urlsafe_b64encode(data).decode().rstrip("=")
    elif name == "Boolean":
        text = {b"\0": "false", b"\1": "true"}[data]
    elif name == "Double":
        text = repr(struct.unpack(">d", data)[0])
    elif name == "Guid":
        text = str(uuid.UUID(bytes=data))
    else:
        text = str(struct.unpack(">i" if name == "Int32" else ">q", data)[0])
    return "Edm." + name, text


def branch_key(record, table, wrapping_keys, signing_keys):
    """The key in a record, which is checked before it is unwrapped. Keys are in memory: A256KW, HS256."""
    properties = record["properties"]
    if not record["RowKey"].startswith("encryption_key_") or typed(properties, "RowFormat", "Int32") != "2":
        raise Refused("no record")
    branch = record["RowKey"].removeprefix("encryption_key_")
    text = lambda name: typed(properties, name, "String")
    wrapped = unbase64(typed(properties, "Wrapped", "Binary"))
    message = b"rowkey-branch-key\2" + fields(
        branch, table, text("KeyId"), text("Algorithm"), wrapped, text("Signer"), text("SignatureAlgorithm")
    )
    if text("SignatureAlgorithm") != "HS256" or text("Signer") not in signing_keys:
        raise Refused("no pinned key")
    expected = hmac.digest(signing_keys[text("Signer")], message, hashlib.sha256)
    if not hmac.compare_digest(expected, unbase64(typed(properties, "Signature", "Binary"))):
        raise Refused("signature")
    if text("Algorithm") != "A256KW" or text("KeyId") not in wrapping_keys:
        raise Refused("algorithm")
    try:
        return branch, aes_key_unwrap(wrapping_keys[text("KeyId")], wrapped)
    except InvalidUnwrap as error:
        raise Refused("wrapped") from error


def open_entity(row, table, branch, key):
    """The properties of an entity as they were before they were sealed."""
    properties = dict(row["properties"])
    parts = typed(properties, METADATA, "String").split(" ")
    del properties[METADATA]
    if len(parts) != 6 or parts[0] != "2" or parts[1] != branch or parts[5] not in ("-", "signed"):
        raise Refused("metadata")
    op, seal, signed = parts[2], unbase64(parts[3]), parts[5] == "signed"
    names = [] if parts[4] == "-" else parts[4].split(",")

    info = b"rowkey-row-key\2" + fields(branch, op)
    cipher = AESGCM(HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(key))

    def bound(kind, name):
        place = fields("A256GCM", branch, op, table, "", row["PartitionKey"], row["RowKey"], name)
        return b"rowkey-encryption\2" + bytes([kind]) + place

    def decrypt(nonce, data, associated):
        try:
            return cipher.decrypt(nonce, data, associated)
        except (InvalidTag, ValueError) as error:
            raise Refused("altered") from error

    sealed = {name: unbase64(typed(properties, name, "Binary")) for name in names}
    indexes = {}
    for name in names:
        index = name + "_BlindIndex"
        indexes[name] = typed(properties, index, "String") if index in properties else ""
        properties.pop(index, None)
    covered = struct.pack(">I", len(names))
    covered += b"".join(fields(name, indexes[name], sealed[name][-16:]) for name in names)
    if signed:
        others = sorted(set(properties) - set(names) - OF_STORE, key=str.encode)
        covered += b"\1" + struct.pack(">I", len(others))
        for name in others:
            kind, data = canonical(*properties[name])
            covered += fields(name) + bytes([kind]) + fields(data)
    else:
        covered += b"\0"
    if decrypt(seal[:12], seal[12:], bound(0, METADATA) + covered) != b"":
        raise Refused("seal")
    for name, stored in sealed.items():
        if len(stored) < 30 or stored[0] != 2 or not 1 <= stored[1] <= 8:
            raise Refused("value")
        data = decrypt(stored[2:14], stored[14:], bound(stored[1], name))
        properties[name] = of_canonical(stored[1], data)
    return properties
