//! Vending: each user's token opens that user's rows and nothing else, is the same until it is nearly
//! over, and never shows.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use rowkey::patterns::vending::Vending;
use rowkey::queue::Body;
use rowkey::sas::{BlobPermissions, QueuePermissions, Sas, TablePermissions, lint};
use rowkey::service::AccessPolicy;
use rowkey::{
    Clock as _, Credential, CredentialSlot, DynamicEntity, Entity, ErrorCode, ErrorKind, Key,
    ManualClock, Match, Outcome, Partition, StorageAccount, Table,
};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;
use rowkey_tests::random::{Random, Seed, seeds};

#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{user}", row = "note_{id:4}")]
struct Note {
    user: String,
    id: u32,
    text: String,
}

const MINUTE: Duration = Duration::from_secs(60);

/// A server and an account on clocks that stand, with a table `notes`.
struct Fixture {
    server: Server,
    clock: ManualClock,
    account: StorageAccount,
    notes: Table,
}

impl Fixture {
    async fn new() -> TestResult<Self> {
        let server = Server::builder().manual_clock().start().await?;
        let clock = ManualClock::new(server.clock().now().to_chrono());
        let builder = StorageAccount::builder().connection_string(server.connection_string())?;
        let account = builder.clock(clock.clone()).build()?;
        let notes = account.table("notes");
        notes.create().await?;
        for user in ["ada", "adam", "bob"] {
            notes.insert(&note(user, 1)).await?;
        }
        Ok(Self { server, clock, account, notes })
    }

    /// The account as a user has it.
    fn at(&self, vending: &Vending, user: &str) -> Result<StorageAccount, rowkey::Error> {
        let connection = vending.token(user)?.token.connection_string();
        StorageAccount::builder().connection_string(&connection)?.clock(self.clock.clone()).build()
    }

    fn advance(&self, duration: Duration) {
        self.server.clock().advance(duration);
        self.clock.advance(duration);
    }
}

fn note(user: &str, id: u32) -> Note {
    Note { user: user.into(), id, text: format!("{user}'s") }
}

fn own_notes(user: &str) -> Sas<TablePermissions> {
    Sas::table("notes").permissions(TablePermissions::ALL).partition(Note::partition(user))
}

fn code<T: std::fmt::Debug>(result: rowkey::Result<T>) -> ErrorCode {
    let error = result.expect_err("it should be refused");
    assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    error.code().expect("the service says why").clone()
}

#[tokio::test]
async fn each_user_can_access_only_their_own_rows() -> TestResult {
    let fixture = Fixture::new().await?;
    let others = fixture.account.table("others");
    others.create().await?;
    others.insert(&note("ada", 1)).await?;
    // A row of the service's own, in the partition of a user.
    let account_of_ada = DynamicEntity::new("ada", "account");
    fixture.notes.insert(&account_of_ada).await?;
    let vending = Vending::new(&fixture.account, own_notes);
    for (user, other) in [("ada", "bob"), ("bob", "ada"), ("ada", "adam"), ("adam", "ada")] {
        let theirs = fixture.at(&vending, user)?;
        let notes = theirs.table("notes");
        let stored = notes.get(Note::key(user, 1)).await?.ok_or("it is theirs")?;
        notes.replace(&stored).await?;
        notes.upsert(&note(user, 2)).await?;
        notes.transaction().insert(&note(user, 3)).upsert(&note(user, 4)).submit().await?;
        notes.delete(Note::key(user, 3), Match::Any).await?;
        assert_eq!(notes.query(Note::partition(user)).all().await?.len(), 3);

        // Rows of other users are not found,
        assert!(notes.get(Note::key(other, 1)).await?.is_none());
        assert!(notes.query(Note::partition(other)).all().await?.is_empty());
        let seen = notes.scan::<DynamicEntity>().all().await?;
        assert!(seen.iter().all(|it| it.entity.key().parts().is_ok_and(|key| key.0 == user)));
        assert_eq!(seen.len(), 3, "and no row of another type");
        // and cannot be written.
        let refused = ErrorCode::AUTHORIZATION_FAILURE;
        assert_eq!(code(notes.insert(&note(other, 9)).await), refused);
        assert_eq!(code(notes.upsert(&note(other, 1)).await), refused);
        assert_eq!(code(notes.delete(Note::key(other, 1), Match::Any).await), refused);
        let batch = notes.transaction().insert(&note(other, 8)).insert(&note(other, 9));
        assert_eq!(code(batch.submit().await), refused);
        let row = Key::<DynamicEntity>::new(user, "account");
        assert_eq!(code(notes.delete(row, Match::Any).await), refused);
        let table = theirs.table("others");
        assert_eq!(code(table.get(Note::key(user, 1)).await), refused);
        assert_eq!(code(table.insert(&note(user, 9)).await), refused);
        assert_eq!(code(theirs.table("new").create().await), refused);
        notes.transaction().delete(Note::key(user, 2), Match::Any).submit().await?;
        notes.delete(Note::key(user, 4), Match::Any).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_token_is_reused_until_the_margin_and_valid_until_it_expires() -> TestResult {
    let fixture = Fixture::new().await?;
    let vending =
        Vending::new(&fixture.account, own_notes).lifetime(20 * MINUTE).margin(5 * MINUTE);
    let before = fixture.server.journal();
    let first = vending.token("ada")?;
    let left = (first.renew_after - fixture.clock.now()).to_std()?;
    assert!(left < 15 * MINUTE && first.expires - first.renew_after == TimeDelta::minutes(5));
    for part in [left / 3, left / 3, left / 3] {
        fixture.advance(part);
        assert_eq!(vending.token("ada")?.token.query(), first.token.query());
        // Another process has the same.
        let other = vending.clone();
        assert_eq!(other.token("ada")?.token.query(), first.token.query());
    }
    let hers = fixture.at(&vending, "ada")?.table("notes");
    fixture.advance(Duration::from_secs(1));
    let second = vending.token("ada")?;
    assert_ne!(second.token.query(), first.token.query());
    assert_eq!(second.expires - first.expires, TimeDelta::minutes(15));
    assert!(fixture.server.journal().since(&before).is_empty(), "nothing is sent for a token");

    fixture.advance(4 * MINUTE);
    assert!(hers.get(Note::key("ada", 1)).await?.is_some(), "the old one lives on for the margin");
    fixture.advance(2 * MINUTE);
    assert_eq!(code(hers.get(Note::key("ada", 1)).await), ErrorCode::AUTHENTICATION_FAILED);
    assert!(fixture.at(&vending, "ada")?.table("notes").get(Note::key("ada", 1)).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn a_token_is_always_valid_for_at_least_the_margin() -> TestResult {
    let clock = ManualClock::new(DateTime::UNIX_EPOCH);
    let key = Credential::shared_key("contoso", "YmFy")?;
    let account = StorageAccount::builder().credential(key).clock(clock.clone()).build()?;
    for seed in seeds(1000) {
        let _seed = Seed(seed);
        let mut random = Random(seed);
        clock.advance(Duration::from_millis(random.within(1_000_000_000)));
        let lifetime = Duration::from_secs(random.within(3600) + 1);
        let margin = Duration::from_millis(random.within(lifetime.as_secs() * 1000 - 999));
        let vending = Vending::new(&account, own_notes).lifetime(lifetime).margin(margin);
        let user = format!("user{}", random.below(1000));
        let mut tokens = BTreeSet::new();
        let begin: DateTime<Utc> = clock.now();
        for _ in 0..20 {
            let vended = vending.token(&user)?;
            let left = (vended.expires - clock.now()).to_std()?;
            assert!((margin..=lifetime).contains(&left), "{left:?}, {margin:?}, {lifetime:?}");
            assert!(clock.now() <= vended.renew_after);
            assert_eq!(vended.token.lint(clock.now()), []);
            tokens.insert(vended.token.query().to_owned());
            clock.advance(Duration::from_millis(random.within(600_000)));
        }
        let step = lifetime.as_secs() - u64::try_from(margin.as_millis().div_ceil(1000))?;
        let most = u64::try_from((clock.now() - begin).num_seconds())? / step + 2;
        assert!(tokens.len() as u64 <= most, "{} tokens in {most} turns", tokens.len());
    }
    Ok(())
}

#[tokio::test]
async fn tokens_of_different_users_expire_at_different_times() -> TestResult {
    let fixture = Fixture::new().await?;
    let vending = Vending::new(&fixture.account, own_notes);
    let ends: BTreeSet<_> = (0..200)
        .map(|n| vending.token(&format!("user{n}")).map(|vended| vended.expires))
        .collect::<Result<_, _>>()?;
    assert!(ends.len() > 150, "{} ends of 200", ends.len());
    Ok(())
}

#[tokio::test]
async fn deleting_a_policy_revokes_its_tokens() -> TestResult {
    let fixture = Fixture::new().await?;
    let policy = |id: &str| AccessPolicy {
        id: id.into(),
        permission: Some(TablePermissions::QUERY.to_string()),
        ..AccessPolicy::default()
    };
    fixture.notes.set_access_policy(policy("app1")).await?;
    let grant = |user: &str| Sas::table("notes").partition(Note::partition(user));
    // Long-lived, which is not given out without a policy.
    let vending = Vending::new(&fixture.account, grant).lifetime(600 * MINUTE);
    assert_eq!(vending.token("ada").unwrap_err().kind(), ErrorKind::Invalid);
    let vending = vending.policy("app1");
    let hers = fixture.at(&vending, "ada")?.table("notes");
    assert!(hers.get(Note::key("ada", 1)).await?.is_some());
    assert!(hers.get(Note::key("bob", 1)).await?.is_none());
    assert_eq!(
        code(hers.insert(&note("ada", 2)).await),
        ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH
    );
    fixture.notes.rotate_access_policy("app1", policy("app2")).await?;
    assert_eq!(code(hers.get(Note::key("ada", 1)).await), ErrorCode::AUTHENTICATION_FAILED);
    let hers = fixture.at(&vending.policy("app2"), "ada")?.table("notes");
    assert!(hers.get(Note::key("ada", 1)).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn tokens_are_signed_with_the_current_account_key() -> TestResult {
    let server = Server::builder().account("contoso", ["b2xk", "bmV3"]).start().await?;
    let key = |key| Credential::shared_key("contoso", key);
    let slot = CredentialSlot::new(key("b2xk")?);
    let account = StorageAccount::builder()
        .credential(slot.credential())
        .endpoint(rowkey::service::Service::Table, server.table_endpoint())?
        .build()?;
    account.table("notes").create().await?;
    let vending = Vending::new(&account, own_notes);
    let old = vending.token("ada")?;
    slot.replace(key("bmV3")?)?;
    let new = vending.token("ada")?;
    assert_ne!(new.token.query(), old.token.query());
    for vended in [old, new] {
        let hers = StorageAccount::from_connection_string(&vended.token.connection_string())?;
        hers.table("notes").upsert(&note("ada", 1)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn invalid_and_risky_tokens_are_not_issued() -> TestResult {
    let fixture = Fixture::new().await?;
    let account = &fixture.account;
    let whole = |_: &str| Sas::table("notes").permissions(TablePermissions::QUERY);
    let open = move |user: &str| whole(user).keys(Key::<Note>::new(user, "")..);
    let keyless = StorageAccount::from_connection_string(
        &Vending::new(account, own_notes).token("ada")?.token.connection_string(),
    )?;
    let azure = StorageAccount::builder().credential(Credential::shared_key("contoso", "YmFy")?);
    let azure = azure.build()?;
    let http = |user: &str| own_notes(user).allow_http();
    let fine = || Vending::new(account, own_notes);
    for (vending, user, named) in [
        (Vending::new(account, whole), "secret", "give a partition"),
        (Vending::new(account, open), "secret", "both ends"),
        (Vending::new(&azure, http), "secret", "https"),
        (Vending::new(&keyless, own_notes), "secret", "account key"),
        (fine(), "", "name"),
        (fine(), &*"secret".repeat(300), "key"),
        (fine().lifetime(61 * MINUTE), "secret", "policy"),
        (fine().lifetime(10 * MINUTE), "secret", "margin"),
        (fine().lifetime(Duration::MAX), "secret", "margin"),
    ] {
        let error = vending.token(user).map(|_| ()).unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Invalid, Outcome::NotSent));
        assert!(error.to_string().contains(named), "{named}: {error}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }
    // Characters invalid in keys are escaped, so no name falls into another user's range.
    let token = |user| fine().token(user).map(|vended| vended.token.query().to_owned());
    assert_ne!(token("ada/bob")?, token("ada")?);
    assert!(Vending::new(&azure, own_notes).token("ada")?.token.query().contains("spr=https"));
    Ok(())
}

#[tokio::test]
async fn debug_output_contains_no_token() -> TestResult {
    let fixture = Fixture::new().await?;
    let vending = Vending::new(&fixture.account, own_notes);
    let vended = vending.token("secret-user")?;
    let signature = vended.token.query().split("sig=").nth(1).ok_or("it is signed")?;
    let shown = format!("{vending:?} {vended:?}");
    assert!(!shown.contains(signature) && !shown.contains("secret-user"), "{shown}");
    assert!(lint(vended.token.query(), fixture.clock.now()).is_ok());
    Ok(())
}

#[tokio::test]
async fn a_token_may_be_for_a_queue_or_a_container() -> TestResult {
    let fixture = Fixture::new().await?;
    for user in ["ada", "bob"] {
        fixture.account.queue(&format!("inbox-{user}")).create().await?;
        fixture.account.container(&format!("photos-{user}")).create().await?;
    }
    let inbox = Vending::new(&fixture.account, |user| {
        Sas::queue(format!("inbox-{user}")).permissions(QueuePermissions::PROCESS)
    });
    let photos = Vending::new(&fixture.account, |user| {
        let permissions = BlobPermissions::READ | BlobPermissions::CREATE | BlobPermissions::WRITE;
        Sas::container(format!("photos-{user}")).permissions(permissions)
    });
    fixture.account.queue("inbox-ada").put(Body::text("hello")).send().await?;
    let hers = fixture.at(&inbox, "ada")?;
    assert_eq!(hers.queue("inbox-ada").receive(1, MINUTE).await?.len(), 1);
    assert!(hers.queue("inbox-bob").receive(1, MINUTE).await.is_err());
    let hers = fixture.at(&photos, "ada")?;
    hers.container("photos-ada").blob("1").put("x").send().await?;
    assert!(hers.container("photos-bob").blob("1").put("x").send().await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_token_may_cover_a_row_prefix_of_a_shared_partition() -> TestResult {
    let fixture = Fixture::new().await?;
    let board = fixture.account.table("boards");
    board.create().await?;
    for row in ["ada_1", "adam_1", "bob_1"] {
        board.insert(&DynamicEntity::new("2026", row)).await?;
    }
    // The separator belongs to the prefix, or ada would have adam's.
    let vending = Vending::new(&fixture.account, |user| {
        let rows = Partition::<DynamicEntity>::new("2026").prefix(&format!("{user}_"));
        Sas::table("boards").permissions(TablePermissions::QUERY).partition(rows)
    });
    let hers = fixture.at(&vending, "ada")?.table("boards");
    assert_eq!(hers.scan::<DynamicEntity>().all().await?.len(), 1);
    Ok(())
}
