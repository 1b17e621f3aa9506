//! Names of headers that only the Blob service has.

use http::HeaderName;

macro_rules! names {
    ($($name:ident = $text:literal),* $(,)?) => {
        $(
            #[doc = concat!("`", $text, "`")]
            pub const $name: HeaderName = HeaderName::from_static($text);
        )*
    };
}

names! {
    ACCESS_TIER = "x-ms-access-tier",
    ACCESS_TIER_CHANGE_TIME = "x-ms-access-tier-change-time",
    ACCESS_TIER_INFERRED = "x-ms-access-tier-inferred",
    ACCOUNT_KIND = "x-ms-account-kind",
    APPEND_OFFSET = "x-ms-blob-append-offset",
    APPEND_POSITION = "x-ms-blob-condition-appendpos",
    ARCHIVE_STATUS = "x-ms-archive-status",
    BLOB_TYPE = "x-ms-blob-type",
    CACHE_CONTROL = "x-ms-blob-cache-control",
    COMMITTED_BLOCKS = "x-ms-blob-committed-block-count",
    CONTENT_CRC64 = "x-ms-content-crc64",
    CONTENT_DISPOSITION = "x-ms-blob-content-disposition",
    CONTENT_ENCODING = "x-ms-blob-content-encoding",
    CONTENT_LANGUAGE = "x-ms-blob-content-language",
    CONTENT_LENGTH = "x-ms-blob-content-length",
    CONTENT_MD5 = "x-ms-blob-content-md5",
    CONTENT_TYPE = "x-ms-blob-content-type",
    COPY_ACTION = "x-ms-copy-action",
    COPY_COMPLETION_TIME = "x-ms-copy-completion-time",
    COPY_ID = "x-ms-copy-id",
    COPY_PROGRESS = "x-ms-copy-progress",
    COPY_SOURCE = "x-ms-copy-source",
    COPY_SOURCE_TAG_OPTION = "x-ms-copy-source-tag-option",
    COPY_STATUS = "x-ms-copy-status",
    CREATION_TIME = "x-ms-creation-time",
    DELETE_SNAPSHOTS = "x-ms-delete-snapshots",
    DELETE_TYPE_PERMANENT = "x-ms-delete-type-permanent",
    HAS_IMMUTABILITY_POLICY = "x-ms-has-immutability-policy",
    HAS_LEGAL_HOLD = "x-ms-has-legal-hold",
    IF_TAGS = "x-ms-if-tags",
    IS_HNS_ENABLED = "x-ms-is-hns-enabled",
    LEASE_ACTION = "x-ms-lease-action",
    LEASE_BREAK_PERIOD = "x-ms-lease-break-period",
    LEASE_DURATION = "x-ms-lease-duration",
    LEASE_ID = "x-ms-lease-id",
    LEASE_STATE = "x-ms-lease-state",
    LEASE_STATUS = "x-ms-lease-status",
    LEASE_TIME = "x-ms-lease-time",
    MAX_SIZE = "x-ms-blob-condition-maxsize",
    PROPOSED_LEASE_ID = "x-ms-proposed-lease-id",
    PUBLIC_ACCESS = "x-ms-blob-public-access",
    RANGE = "x-ms-range",
    RANGE_GET_CRC64 = "x-ms-range-get-content-crc64",
    RANGE_GET_MD5 = "x-ms-range-get-content-md5",
    REHYDRATE_PRIORITY = "x-ms-rehydrate-priority",
    REQUEST_SERVER_ENCRYPTED = "x-ms-request-server-encrypted",
    REQUIRES_SYNC = "x-ms-requires-sync",
    SEALED = "x-ms-blob-sealed",
    SEAL_BLOB = "x-ms-seal-blob",
    SERVER_ENCRYPTED = "x-ms-server-encrypted",
    SKU_NAME = "x-ms-sku-name",
    SNAPSHOT = "x-ms-snapshot",
    SOURCE_IF_MATCH = "x-ms-source-if-match",
    SOURCE_IF_MODIFIED_SINCE = "x-ms-source-if-modified-since",
    SOURCE_IF_NONE_MATCH = "x-ms-source-if-none-match",
    SOURCE_IF_TAGS = "x-ms-source-if-tags",
    SOURCE_IF_UNMODIFIED_SINCE = "x-ms-source-if-unmodified-since",
    SOURCE_LEASE_ID = "x-ms-source-lease-id",
    STRUCTURED_BODY = "x-ms-structured-body",
    TAGS = "x-ms-tags",
    TAG_COUNT = "x-ms-tag-count",
}
