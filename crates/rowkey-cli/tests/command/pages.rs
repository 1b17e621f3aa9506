//! `rowkey completions` and `rowkey man`.

use std::fs;

use crate::support::Account;

#[tokio::test(flavor = "multi_thread")]
async fn completions_are_written_for_each_shell() {
    let account = Account::start().await;
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = account.ok(["completions", shell]);
        assert!(script.contains("if-match") && script.contains("completions"), "{shell}");
    }
    account.fails(2, ["completions", "cmd"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn manual_pages_are_written_to_stdout_and_to_a_folder() {
    let account = Account::start().await;
    let page = account.ok(["man"]);
    assert!(page.contains(".TH rowkey 1") && page.contains("Exit codes"), "{page}");

    fs::create_dir(account.path("pages")).unwrap();
    assert_eq!(account.ok(["man", "--folder", "pages"]), "");
    for page in ["rowkey.1", "rowkey-query.1", "rowkey-tables-drop.1", "rowkey-profile-add.1"] {
        assert!(account.path("pages").join(page).exists(), "{page}");
    }
    let error = account.fails(1, ["man", "--folder", "absent"]);
    assert!(error.contains("absent cannot be written"), "{error}");
}
