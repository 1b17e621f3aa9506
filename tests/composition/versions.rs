//! Item 6: the version of an entity that was read through an index is that of the copy.

use rowkey::{DynamicEntity, Match};

use crate::{Employee, employee, key, staff, start};

/// Item 6: the ETag of an entity that was read through an index is its copy's, so that a client that
/// sends it back in `If-Match` is always refused.
#[tokio::test]
#[should_panic(expected = "a patch under the version that an index shows is refused: Conflict")]
async fn the_version_read_through_an_index_is_the_entitys() {
    let (_server, account) = start().await;
    let staff = staff(&account);
    staff.insert(&employee(7, "ada@contoso.com")).await.unwrap();
    // GET by e-mail, and PATCH with If-Match. A city is in no index beside the employee.
    let found = staff.find(Employee::by_email("sales", "ada@contoso.com")).await.unwrap().unwrap();
    let if_match = found.etag().clone();
    let mut patch = DynamicEntity::new("sales", "id_000007");
    patch.set("City", "York");
    if let Err(error) = staff.table().merge((&patch, Match::ETag(if_match))).await {
        panic!("a patch under the version that an index shows is refused: {:?}", error.kind());
    }
}

/// Item 6: a write after a read through a copy is guarded by the copy alone and replaces the entity
/// unconditionally, with what another program wrote there meanwhile.
#[tokio::test]
#[should_panic(expected = "a write after a read through an index replaces a version not read")]
async fn a_write_after_a_read_through_an_index_is_guarded_by_the_entity() {
    let (_server, account) = start().await;
    let staff = staff(&account);
    staff.insert(&employee(7, "ada@contoso.com")).await.unwrap();
    let found = staff.find(Employee::by_email("sales", "ada@contoso.com")).await.unwrap().unwrap();
    let mut badge = DynamicEntity::new("sales", "id_000007");
    badge.set("Badge", "B1");
    staff.table().merge((&badge, Match::Any)).await.unwrap();

    let replaced = staff.replace(&found.map(|employee| employee.city = "York".into())).await;
    let row = staff.table().get(key(7).cast::<DynamicEntity>()).await.unwrap().unwrap();
    let kept = row.entity.get("Badge").is_some();
    assert!(kept, "a write after a read through an index replaces a version not read");
    assert!(
        replaced.is_err_and(|error| error.is_conflict()),
        "the caller is not told to read again"
    );
}
