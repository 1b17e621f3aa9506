//! object_store's own tests of a store, on containers of an emulator. `STRANGERS_BLOB` is the account's endpoint.

use std::env;

use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::integration as suite;

/// A store on a container of the test's own, which the runner made.
fn store(test: &str) -> MicrosoftAzure {
    let read = |name| env::var(name).expect("set by tests/strangers/run");
    MicrosoftAzureBuilder::new()
        .with_account(read("STRANGERS_ACCOUNT"))
        .with_access_key(read("STRANGERS_KEY"))
        .with_endpoint(read("STRANGERS_BLOB"))
        .with_container_name(test.replace('_', "-"))
        .with_allow_http(true)
        .build()
        .expect("a store")
}

macro_rules! tests {
    (@call $name:ident, $store:ident,) => { suite::$name(&$store).await };
    (@call $name:ident, $store:ident, again) => { suite::$name(&$store, &$store).await };
    (@call $name:ident, $store:ident, $flag:literal) => { suite::$name(&$store, $flag).await };
    ($($name:ident($($argument:tt)*);)*) => {
        $(
            #[tokio::test]
            async fn $name() {
                let store = store(stringify!($name));
                tests!(@call $name, store, $($argument)*);
            }
        )*
    };
}

tests! {
    put_get_delete_list();
    put_get_attributes();
    put_opts(true);
    get_opts();
    stream_get();
    list_with_offset_exclusivity();
    list_uses_directories_correctly();
    list_with_delimiter();
    list_paginated(again);
    rename_and_copy();
    copy_if_not_exists();
    copy_rename_nonexistent_object();
    multipart(again);
    multipart_put_part_out_of_order(again);
    multipart_race_condition(false);
    multipart_out_of_order();
}
