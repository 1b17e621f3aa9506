//! Programs of two versions on one table: what one of them encrypts stays encrypted when the other writes it.
//!
//! Each write of an older program is made over entities of a newer one, whose type has more encrypted
//! fields. Then no row, blob or message has the plaintext, and the newer program reads all of it.

use rowkey::Properties;
use rowkey::store::Patch;
use rowkey_tests::{TestError, TestResult};

use super::*;

/// The writes of a store over an existing entity.
const WRITES: [&str; 11] = [
    "update",
    "patch",
    "patch of an encrypted property",
    "rewrite",
    "reencrypt",
    "replace_if",
    "upsert",
    "transaction",
    "load_over",
    "repair",
    "migrate",
];

/// What each way of reading found.
type Found<P> = Vec<(&'static str, Option<P>)>;

/// The type of one version of the program.
trait Program: Entity + Clone + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    fn sample(number: u32) -> Self;
    fn at(number: u32) -> Key<Self>;
    fn change(&mut self);
    fn rename(&mut self);
    fn patch(store: &Store<Self>) -> Patch<'_, Self>;
    fn patch_name(store: &Store<Self>) -> Patch<'_, Self>;
    /// The entity through each index and query.
    fn found<'s>(&'s self, store: &'s Store<Self>) -> BoxFuture<'s, Result<Found<Self>>>;
}

macro_rules! program {
    ($module:ident, [$($attribute:tt)*], [$($copy:tt)*], { $($field:tt)* }, { $($value:tt)* }) => {
        mod $module {
            use super::*;

            #[derive(Clone, Debug, PartialEq, Entity)]
            #[entity(
                store,
                partition = "{ward}",
                row = "visit_{number:6}",
                rename_all = "PascalCase"
                $($attribute)*
            )]
            #[entity(index(name = by_bed, row = "bed_{bed}" $($copy)*))]
            #[entity(index(name = by_room, partition = "room_{bed}", row = "{ward}_{number}" $($copy)*))]
            #[entity(index(name = by_doctor, row = "doctor_{doctor}", many $($copy)*))]
            #[entity(list(name = of_doctor, value = "{doctor}"))]
            pub(super) struct Visit {
                pub(super) ward: String,
                pub(super) number: u32,
                pub(super) bed: u32,
                pub(super) doctor: String,
                #[entity(encrypt)]
                pub(super) name: String,
                $($field)*
            }

            impl Program for Visit {
                fn sample(number: u32) -> Self {
                    Self {
                        ward: "north".into(),
                        number,
                        bed: number,
                        doctor: "kim".into(),
                        name: format!("Lovelace {number}"),
                        $($value)*
                    }
                }

                fn at(number: u32) -> Key<Self> {
                    Self::key("north", number)
                }

                fn change(&mut self) {
                    self.bed += 100;
                }

                fn rename(&mut self) {
                    self.name = "Lovelace, Ada".into();
                }

                fn patch(store: &Store<Self>) -> Patch<'_, Self> {
                    store.patch(Self::at(1)).set(Self::BED, 101_u32)
                }

                fn patch_name(store: &Store<Self>) -> Patch<'_, Self> {
                    store.patch(Self::at(1)).set(Self::NAME, "Lovelace, Ada")
                }

                fn found<'s>(
                    &'s self,
                    store: &'s Store<Self>,
                ) -> BoxFuture<'s, Result<Found<Self>>> {
                    Box::pin(async move {
                        let in_room = Self::by_room(self.bed, "north", self.number);
                        let listed = store.query(Self::of_doctor("north", "kim")).all().await?;
                        let own = |found: Vec<rowkey::store::Versioned<Self>>| {
                            found.into_iter().find(|one| one.entity.number == self.number)
                        };
                        let all = store.query(Self::partition("north")).all().await?;
                        let copies = store.query(Self::by_doctor("north", "kim")).all().await?;
                        Ok([
                            ("get", store.get(Self::at(self.number)).await?),
                            ("find", store.find(Self::by_bed("north", self.bed)).await?),
                            ("find elsewhere", store.find(in_room).await?),
                            ("list", own(listed)),
                            ("query", own(all)),
                            ("query of an index", own(copies)),
                        ]
                        .into_iter()
                        .map(|(how, found)| (how, found.map(|found| found.entity)))
                        .collect())
                    })
                }
            }
        }
    };
}

program!(older, [], [], {}, {});
program!(
    newer,
    [],
    [],
    {
        #[entity(encrypt)]
        pub(super) finding: Option<String>,
        #[entity(json, encrypt)]
        pub(super) history: Vec<String>,
        #[entity(encrypt)]
        pub(super) scan: Vec<u8>,
    },
    {
        finding: Some("Measles".into()),
        history: vec!["Scarlet fever".into()],
        scan: b"Scan of a lung".to_vec(),
    }
);
program!(
    older_open,
    [],
    [],
    {
        #[entity(rest)]
        pub(super) rest: Properties,
    },
    { rest: Properties::new(), }
);
program!(
    imaged,
    [],
    [],
    {
        #[entity(encrypt, blob)]
        pub(super) image: Vec<u8>,
        #[entity(encrypt)]
        pub(super) finding: Option<String>,
    },
    { image: b"Picture of a lung".repeat(9), finding: Some("Measles".into()), }
);
program!(
    older_wide,
    [, wide = 4],
    [, copy(bed)],
    {
        #[entity(rest)]
        pub(super) rest: Properties,
    },
    { rest: many(), }
);
program!(
    newer_wide,
    [, wide = 4],
    [, copy(bed)],
    {
        #[entity(encrypt)]
        pub(super) finding: Option<String>,
        #[entity(rest)]
        pub(super) rest: Properties,
    },
    { finding: Some("Measles".into()), rest: many(), }
);

/// More properties than a row has.
fn many() -> Properties {
    let mut many = Properties::new();
    for number in 0..300 {
        many.set(format!("Value{number}"), number);
    }
    many
}

/// What no row, blob or message may show.
const SECRETS: [&str; 5] = ["Lovelace", "Measles", "Scarlet", "of a lung", "Picture"];

fn open<P: Program>(account: &StorageAccount, ring: KeyRing) -> Result<Store<P>> {
    Store::builder(account.table("visits"))
        .queue(account.queue("visits"))
        .blobs(account.container("visits"))
        .keys(ring)
        .build()
}

#[expect(clippy::future_not_send, reason = "each test has its own thread")]
async fn write<P: Program>(how: &str, store: &Store<P>) -> TestResult {
    let changed = async || {
        let read = store.get(P::at(1)).await?.ok_or("there is no such entity")?;
        let mut entity = read.entity;
        entity.change();
        Ok::<_, TestError>((entity, read.version))
    };
    let job = match how {
        "update" => {
            store.update(P::at(1), P::change).await?;
            return Ok(());
        }
        "patch" => {
            P::patch(store).send().await?;
            return Ok(());
        }
        "patch of an encrypted property" => {
            P::patch_name(store).send().await?;
            return Ok(());
        }
        "rewrite" => {
            assert!(store.rewrite(P::at(1)).await?);
            return Ok(());
        }
        "replace_if" => {
            let (entity, version) = changed().await?;
            store.replace_if(&entity, &version).await?;
            return Ok(());
        }
        "upsert" => {
            store.upsert(&changed().await?.0).await?;
            return Ok(());
        }
        "transaction" => {
            let (entity, version) = changed().await?;
            store.transaction().replace_if(&entity, version).submit().await?;
            return Ok(());
        }
        "load_over" => store.load_over(stream::iter([changed().await?.0])).run().await?,
        "reencrypt" => store.reencrypt().run().await?,
        "repair" => store.repair().run().await?,
        "migrate" => store.migrate().run().await?,
        other => return Err(format!("unknown write: {other}").into()),
    };
    assert!(job.is_clean(), "{job:?}");
    Ok(())
}

/// No row of any table, no blob and no message shows a secret, and all rows of an entity list what is sealed.
fn assert_hidden(server: &Server, names: &[&str], how: &str) {
    let snapshot = server.snapshot();
    let shows = |bytes: &[u8]| {
        SECRETS.iter().any(|text| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
    };
    for table in snapshot.tables() {
        for row in table.entities() {
            let keys = format!("{} {}", row.partition_key(), row.row_key());
            assert!(!shows(keys.as_bytes()), "{how}: {keys}");
            for (name, value) in row.properties() {
                let bytes = match &value {
                    Value::Binary(bytes) => bytes.clone(),
                    value => format!("{value:?}").into_bytes(),
                };
                assert!(!shows(&bytes), "{how}: `{name}` of {keys}");
            }
            let Some(Value::String(metadata)) = row.get("_RowkeyEncryption") else { continue };
            let sealed = metadata.split(' ').nth(4).unwrap_or_default();
            for name in names {
                assert!(sealed.split(',').any(|one| one == *name), "{how}: {name} of {keys}");
            }
        }
    }
    for name in snapshot.blobs("visits") {
        assert!(!shows(&snapshot.blob("visits", name).unwrap()), "{how}: {name}");
    }
    for message in snapshot.queue("visits").unwrap().messages() {
        assert!(!shows(message.text().as_bytes()), "{how}: a message");
    }
}

/// Every write of the older program over an entity of the newer one. (A program whose type dropped the fields
/// is like an older one.)
#[expect(clippy::future_not_send, reason = "each test has its own thread")]
async fn assert_kept<N: Program, O: Program>(
    newer_ring: fn(u8) -> KeyRing,
    older_ring: fn(u8) -> KeyRing,
    names: &[&str],
) -> TestResult {
    for how in WRITES {
        let server = Server::builder().manual_clock().start().await?;
        let account = account(&server)?;
        let newer = open::<N>(&account, newer_ring(26))?;
        newer.create_if_missing().await?;
        newer.insert(&N::sample(1)).await?;
        newer.insert(&N::sample(2)).await?;
        let year = if how == "reencrypt" { 27 } else { 26 };
        let older = open::<O>(&account, older_ring(year))?;
        write(how, &older).await.map_err(|error| format!("{how}: {error}"))?;
        assert_hidden(&server, names, how);

        let newer = open::<N>(&account, newer_ring(27))?;
        let mut expected = [N::sample(1), N::sample(2)];
        let mut of_older = O::sample(1);
        match how {
            "rewrite" | "reencrypt" | "repair" | "migrate" => {}
            "patch of an encrypted property" => {
                expected[0].rename();
                of_older.rename();
            }
            _ => {
                expected[0].change();
                of_older.change();
            }
        }
        for one in &expected {
            let found = one.found(&newer).await.map_err(|error| format!("{how}: {error}"))?;
            for (through, found) in found {
                assert_eq!(found.as_ref(), Some(one), "{how}: {through}");
            }
        }
        for (through, found) in of_older.found(&older).await? {
            assert_eq!(found.as_ref(), Some(&of_older), "{how}: {through} of the older program");
        }
        for report in [newer.verify().run().await?, older.verify().run().await?] {
            assert!(report.is_clean(), "{how}: {report:?}");
        }
        // The newer program writes again, and the older one deletes.
        newer.update(N::at(1), N::rename).await?;
        expected[0].rename();
        assert_eq!(newer.get(N::at(1)).await?.map(|one| one.entity).as_ref(), Some(&expected[0]));
        assert_hidden(&server, names, how);
        assert!(older.delete(O::at(1)).await?, "{how}");
        assert_eq!(older.reencrypt().run().await?.total.unreadable, 0, "{how}");
        assert_eq!(older.reencrypt().run().await?.total.repaired, 0, "{how}: it does not end");
        assert_eq!(newer.get(N::at(2)).await?.map(|one| one.entity).as_ref(), Some(&expected[1]));
    }
    Ok(())
}

fn indexing(year: u8) -> KeyRing {
    ring(year).index(IndexKey::new([9; 32]), ["Finding"])
}

fn signing(year: u8) -> KeyRing {
    ring(year).sign_plaintext()
}

const FIELDS: [&str; 4] = ["Name", "Finding", "History", "Scan"];

#[tokio::test]
async fn fields_that_an_older_program_lacks_stay_encrypted() -> TestResult {
    assert_kept::<newer::Visit, older::Visit>(ring, ring, &FIELDS).await
}

#[tokio::test]
async fn a_field_with_the_other_properties_does_not_get_what_is_encrypted() -> TestResult {
    assert_kept::<newer::Visit, older_open::Visit>(ring, ring, &FIELDS).await
}

#[tokio::test]
async fn blobs_that_an_older_program_lacks_stay_encrypted() -> TestResult {
    assert_kept::<imaged::Visit, older::Visit>(ring, ring, &["Name", "Finding"]).await
}

#[tokio::test]
async fn further_rows_of_another_version_stay_encrypted() -> TestResult {
    assert_kept::<newer_wide::Visit, older_wide::Visit>(ring, ring, &["Name", "Finding"]).await
}

#[tokio::test]
async fn signed_entities_of_another_version_stay_signed() -> TestResult {
    assert_kept::<newer::Visit, older::Visit>(signing, signing, &FIELDS).await?;
    assert_kept::<newer::Visit, older::Visit>(signing, ring, &FIELDS).await?;
    assert_kept::<newer_wide::Visit, older_wide::Visit>(signing, signing, &["Name", "Finding"])
        .await
}

#[tokio::test]
async fn blind_indexes_of_another_version_are_kept() -> TestResult {
    assert_kept::<newer::Visit, older::Visit>(indexing, ring, &FIELDS).await?;
    assert_kept::<newer::Visit, older::Visit>(indexing, indexing, &FIELDS).await?;

    let server = Server::builder().manual_clock().start().await?;
    let account = account(&server)?;
    let newer = open::<newer::Visit>(&account, indexing(26))?;
    newer.create_if_missing().await?;
    newer.insert(&Program::sample(1)).await?;
    open::<older::Visit>(&account, ring(26))?.update(Program::at(1), Program::change).await?;
    let is_measles = indexing(26).equals("Finding", "Measles")?;
    let found = newer.query(newer::Visit::partition("north")).filter(is_measles).all().await?;
    assert_eq!(found.len(), 1);
    Ok(())
}
