//! Values of which only some entities are encrypted: two fields, or two types with key templates of their own.

use super::*;

/// Either field has the address.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{town}", row = "contact_{number}", rename_all = "PascalCase")]
struct Contact {
    town: String,
    number: u32,
    address: Option<String>,
    #[entity(encrypt)]
    protected_address: Option<String>,
}

#[tokio::test]
async fn a_value_is_encrypted_in_some_entities_by_two_optional_fields() -> TestResult {
    let (_server, account, _) = start().await?;
    let table = account.table("patients");
    let contacts = Store::<Contact>::builder(table).keys(ring(26)).build()?;
    let of = |number, address: Option<&str>, protected: Option<&str>| Contact {
        town: "oslo".into(),
        number,
        address: address.map(str::to_owned),
        protected_address: protected.map(str::to_owned),
    };
    let (open, secret) = (of(1, Some("1 Main St"), None), of(2, None, Some("2 Main St")));
    for contact in [&open, &secret] {
        contacts.insert(contact).await?;
    }
    let rows = (raw(&account, 1).await?, raw(&account, 2).await?);
    assert_eq!(rows.0.get("Address"), Some(&Value::String("1 Main St".into())));
    assert_eq!(rows.0.get("ProtectedAddress"), None);
    assert!(matches!(rows.1.get("ProtectedAddress"), Some(Value::Binary(_))));

    // An encrypted value is not read as the other field, and a plaintext one not as the encrypted field.
    let (mut moved, mut forged) = (rows.1.clone(), rows.1.clone());
    moved.set("Address", moved.get("ProtectedAddress").unwrap().clone());
    forged.set("ProtectedAddress", "3 Main St");
    for row in [moved, forged] {
        account.table("patients").replace((&row, Match::Any)).await?;
        let error = contacts.get(Contact::key("oslo", 2)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
    }
    account.table("patients").replace((&rows.1, Match::Any)).await?;

    let protected = contacts.update(Contact::key("oslo", 1), |contact| {
        contact.protected_address = contact.address.take();
    });
    protected.await?;
    let row = raw(&account, 1).await?;
    assert_eq!(row.get("Address"), None, "it is in plaintext no longer");
    let all = contacts.query(Contact::partition("oslo")).all().await?;
    let all: Vec<_> = all.into_iter().map(|contact| contact.entity).collect();
    assert_eq!(all, [of(1, None, Some("1 Main St")), secret]);
    Ok(())
}

async fn raw(account: &StorageAccount, number: u32) -> Result<DynamicEntity> {
    let key = Key::<DynamicEntity>::new("oslo", format!("contact_{number:010}"));
    Ok(account.table("patients").get(key).await?.unwrap().entity)
}

/// Measurements of a public well.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{town}", row = "public_{number}")]
struct PublicWell {
    town: String,
    number: u32,
    depth: i32,
}

/// The same measurements of a private well.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{town}", row = "private_{number}")]
struct PrivateWell {
    town: String,
    number: u32,
    #[entity(encrypt)]
    depth: i32,
}

#[tokio::test]
async fn a_value_is_encrypted_in_some_entities_by_two_types() -> TestResult {
    let (_server, account, _) = start().await?;
    let table = account.table("patients");
    let public = Store::<PublicWell>::builder(table.clone()).build()?;
    let private = Store::<PrivateWell>::builder(table).keys(ring(26)).build()?;
    public.insert(&PublicWell { town: "oslo".into(), number: 1, depth: 30 }).await?;
    private.insert(&PrivateWell { town: "oslo".into(), number: 1, depth: 40 }).await?;
    let found = public.query(PublicWell::partition("oslo")).all().await?;
    assert_eq!(found.iter().map(|well| well.entity.depth).collect::<Vec<_>>(), [30]);
    let found = private.query(PrivateWell::partition("oslo")).all().await?;
    assert_eq!(found.iter().map(|well| well.entity.depth).collect::<Vec<_>>(), [40]);
    Ok(())
}
