//! Which account is used, and `rowkey profile`.

use std::fs;

use assert_cmd::Command;

use crate::support::{Account, Done, SECRET, finish, program};

/// A run without the variable that names the account.
fn unconnected(account: &Account, args: &[&str]) -> Command {
    let mut command = program(&account.folder);
    command.args(args);
    command
}

fn add(account: &Account, name: &str) -> Done {
    let mut command = unconnected(account, &["profile", "add", name]);
    finish(command.write_stdin(account.server.connection_string()))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_to_name_an_account_works() {
    let account = Account::with_orders().await;
    let text = account.server.connection_string();
    let tables = "{\"table\":\"orders\"}\n";
    for variable in ["ROWKEY_CONNECTION_STRING", "AZURE_STORAGE_CONNECTION_STRING"] {
        let done = finish(unconnected(&account, &["tables"]).env(variable, text));
        assert_eq!((done.code, &*done.out), (0, tables), "{done:?}");
    }
    let mut named = unconnected(&account, &["tables", "--connection-string-env", "SHOP"]);
    let done = finish(named.env("SHOP", text).env("ROWKEY_CONNECTION_STRING", "not this one"));
    assert_eq!((done.code, &*done.out), (0, tables), "{done:?}");

    assert_eq!(add(&account, "shop").code, 0);
    let done = finish(&mut unconnected(&account, &["--profile", "shop", "tables"]));
    assert_eq!((done.code, &*done.out), (0, tables), "{done:?}");

    // The emulator is at a fixed address; an explanation sends nothing.
    let explain = ["query", "t", "--partition", "p", "--explain", "--emulator"];
    let done = finish(&mut unconnected(&account, &explain));
    assert!(done.out.contains("http://127.0.0.1:10002/devstoreaccount1/t()"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_or_several_or_wrong_connections_are_wrong_usage() {
    let account = Account::start().await;
    let done = finish(&mut unconnected(&account, &["tables"]));
    assert_eq!((done.code, &*done.out), (2, ""));
    assert!(done.err.contains("--profile NAME") && done.err.contains("--emulator"), "{done:?}");

    let both = ["tables", "--emulator", "--profile", "x"];
    assert_eq!(finish(&mut unconnected(&account, &both)).code, 2);
    let unset = ["tables", "--connection-string-env", "UNSET"];
    let done = finish(&mut unconnected(&account, &unset));
    assert_eq!(done.code, 2);
    assert!(done.err.contains("UNSET is not set"), "{done:?}");

    for text in [
        SECRET.to_owned(),
        format!("AccountName=shop;Key={SECRET}"),
        format!("AccountKey={SECRET}"),
    ] {
        let mut command = unconnected(&account, &["tables"]);
        let output = command.env("ROWKEY_CONNECTION_STRING", text).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("ROWKEY_CONNECTION_STRING") && !error.contains(SECRET), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_are_added_listed_and_removed_without_showing_secrets() {
    let account = Account::start().await;
    let added = add(&account, "shop");
    assert_eq!(added.out, "{\"profile\":\"shop\",\"account\":\"shop\",\"added\":true}\n");
    let mut from_env = unconnected(&account, &["profile", "add", "other", "--from-env", "OTHER"]);
    from_env.env("OTHER", "UseDevelopmentStorage=true");
    assert_eq!(finish(&mut from_env).code, 0);
    assert_eq!(
        account.ok(["profile", "list"]),
        "{\"profile\":\"other\",\"account\":\"devstoreaccount1\"}\n\
         {\"profile\":\"shop\",\"account\":\"shop\"}\n"
    );
    let table = account.ok(["profile", "list", "--output", "table"]);
    assert!(table.contains("│ shop "), "{table}");

    let again = add(&account, "shop");
    assert_eq!(again.code, 4);
    assert!(again.err.contains("add --replace"), "{again:?}");
    let mut replace = unconnected(&account, &["profile", "add", "shop", "--replace"]);
    assert_eq!(finish(replace.write_stdin("UseDevelopmentStorage=true\n")).code, 0);
    assert!(account.ok(["profile", "list", "--output", "csv"]).contains("shop,devstoreaccount1\n"));

    let error = account.fails(2, ["profile", "remove", "shop"]);
    assert!(error.contains("refused to remove profile shop") && error.contains("--yes"), "{error}");
    let removed = account.ok(["profile", "remove", "shop", "--yes"]);
    assert_eq!(removed, "{\"profile\":\"shop\",\"removed\":true}\n");
    let error = account.fails(3, ["profile", "remove", "shop", "--yes"]);
    assert!(error.contains("no profile shop") && error.contains("rowkey profile list"), "{error}");
    account.fails(3, ["tables", "--profile", "shop"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cloud_of_an_account_by_token_is_in_its_profile() {
    let account = Account::start().await;
    let suffix = ["--endpoint-suffix", "core.chinacloudapi.cn"];
    let error = account.fails(2, [&["tables"][..], &suffix].concat());
    assert!(error.contains("--endpoint-suffix is for --account"), "{error}");
    let add = ["profile", "add", "cn", "--account", "shop", "--credential", "managed-identity"];
    account.ok([&add[..], &suffix].concat());
    let path = account.path(".config/rowkey/profiles.json");
    let stored = fs::read_to_string(path).unwrap();
    assert!(stored.contains("\"endpoint_suffix\": \"core.chinacloudapi.cn\""), "{stored}");
    assert_eq!(account.ok(["profile", "list"]), "{\"profile\":\"cn\",\"account\":\"shop\"}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_connection_string_is_not_stored_and_not_shown() {
    let account = Account::start().await;
    for input in [SECRET, ""] {
        let mut command = unconnected(&account, &["profile", "add", "shop"]);
        let done = finish(command.write_stdin(input));
        assert_eq!((done.code, &*done.out), (2, ""), "{done:?}");
        assert!(done.err.contains("stdin: "), "{done:?}");
    }
    let mut unset = unconnected(&account, &["profile", "add", "shop", "--from-env", "UNSET"]);
    assert_eq!(finish(&mut unset).code, 2);
    assert_eq!(account.ok(["profile", "list"]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_of_profiles_is_refused_without_quoting_it() {
    let account = Account::start().await;
    let path = account.path("mine.json");
    let list = ["profile", "list", "--profiles", "mine.json"];
    assert_eq!(account.ok(list), "");
    let mut command = unconnected(&account, &["profile", "add", "shop"]);
    command.env("ROWKEY_PROFILES", &path);
    assert_eq!(finish(command.write_stdin(account.server.connection_string())).code, 0);
    assert_eq!(account.ok(list), "{\"profile\":\"shop\",\"account\":\"shop\"}\n");

    // Written over, so that its mode stays.
    fs::write(&path, format!("{{\"profiles\":{{\"shop\":\"{SECRET}\"}}}}")).unwrap();
    let error = account.fails(2, list);
    assert!(
        error.contains("mine.json is not as `rowkey profile add` writes it, at line 1"),
        "{error}"
    );
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_profiles_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let account = Account::start().await;
    assert_eq!(add(&account, "shop").code, 0);
    let path = account.path(".config/rowkey/profiles.json");
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    for wider in [0o640, 0o604, 0o622] {
        fs::set_permissions(&path, fs::Permissions::from_mode(wider)).unwrap();
        for args in [
            &["tables", "--profile", "shop"][..],
            &["profile", "list"],
            &["profile", "remove", "shop", "--yes"],
            &["profile", "add", "other"],
        ] {
            let error = account.fails(2, args);
            assert!(error.contains(&format!("has mode {wider:04o}")), "{error}");
            assert!(error.contains("run `chmod 600 "), "{error}");
        }
        assert_eq!(mode(), wider);
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
    account.ok(["tables", "--profile", "shop"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_access_signature_is_not_shown() {
    let account = Account::start().await;
    let text = format!(
        "TableEndpoint=https://shop.table.core.windows.net;SharedAccessSignature=sv=2019-02-02&tn=orders&sp=r&sig={SECRET}"
    );
    let mut command = unconnected(&account, &["profile", "add", "signed"]);
    let done = finish(command.write_stdin(text));
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(account.ok(["profile", "list"]), "{\"profile\":\"signed\",\"account\":\"shop\"}\n");
    for form in ["table", "json-lines", "csv"] {
        let explain = ["query", "orders", "--partition", "p", "--explain", "--profile", "signed"];
        let shown = account.ok(explain.into_iter().chain(["--output", form]));
        assert!(shown.contains("https://shop.table.core.windows.net/orders()"), "{shown}");
        assert!(!shown.contains("sig="), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_by_a_token_needs_both_flags_and_no_secret() {
    let account = Account::start().await;
    let error = account.fails(2, ["tables", "--account", "shop"]);
    assert!(error.contains("add --credential SOURCE"), "{error}");
    let error = account.fails(2, ["tables", "--credential", "managed-identity"]);
    assert!(error.contains("--account NAME"), "{error}");
    let token = ["--account", "shop", "--credential", "managed-identity"];
    account.fails(2, ["tables", "--emulator"].iter().chain(&token));
    account.fails(2, ["tables", "--account", "shop", "--credential", "password"]);

    let added = account.ok(["profile", "add", "signed-in"].iter().chain(&token));
    assert_eq!(added, "{\"profile\":\"signed-in\",\"account\":\"shop\",\"added\":true}\n");
    assert_eq!(
        account.ok(["profile", "list"]),
        "{\"profile\":\"signed-in\",\"account\":\"shop\"}\n"
    );
    account.fails(2, ["profile", "add", "x", "--from-env", "X"].iter().chain(&token));
    let file = fs::read_to_string(account.path(".config/rowkey/profiles.json")).unwrap();
    assert!(file.contains("\"credential\": \"managed-identity\""), "{file}");

    // An explanation sends nothing, and asks for no token.
    let explain = ["query", "orders", "--partition", "p", "--explain"];
    for connection in [&token[..], &["--profile", "signed-in"]] {
        let done = finish(&mut unconnected(&account, &[&explain[..], connection].concat()));
        if cfg!(feature = "azure-identity") {
            assert!(done.out.contains("https://shop.table.core.windows.net/orders()"), "{done:?}");
        } else {
            assert_eq!((done.code, &*done.out), (2, ""), "{done:?}");
            assert!(done.err.contains("`--features azure-identity`"), "{done:?}");
        }
    }
}

/// Without the variables that Kubernetes sets, and without the Azure CLI in PATH.
#[cfg(feature = "azure-identity")]
#[tokio::test(flavor = "multi_thread")]
async fn a_source_of_tokens_that_is_not_there_is_named() {
    let account = Account::start().await;
    let with = |source| ["tables", "--account", "shop", "--credential", source];
    let done = finish(&mut unconnected(&account, &with("workload-identity")));
    assert_eq!((done.code, &*done.out), (2, ""), "{done:?}");
    assert!(done.err.starts_with("rowkey: --credential: "), "{done:?}");
    let done = finish(&mut unconnected(&account, &with("developer-tools")));
    assert_eq!((done.code, &*done.out), (5, ""), "{done:?}");
    assert!(done.err.contains("az not found on PATH"), "{done:?}");
}
