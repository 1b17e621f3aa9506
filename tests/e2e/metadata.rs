//! Metadata whose names the services sort otherwise than by bytes: each of them is signed.

use rowkey_tests::{Fixture, TestResult, unique_name};

/// `chunk_count` is signed before `chunk1`, and `part_of` before `part2`.
const NAMES: [(&str, &str); 6] = [
    ("chunk1", "a"),
    ("chunk_count", "b"),
    ("part2", "c"),
    ("part_of", "d"),
    ("ab", "e"),
    ("a_b", "f"),
];

#[tokio::test]
async fn metadata_names_may_contain_digits_and_underscores() -> TestResult {
    let fixture = Fixture::new().await?;
    let mut expected: Vec<_> =
        NAMES.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    expected.sort_unstable();
    let sorted = |metadata: std::collections::BTreeMap<String, String>| -> Vec<_> {
        metadata.into_iter().collect()
    };

    let queue = fixture.account.queue(&unique_name());
    queue.create_with(&NAMES).await?;
    queue.set_metadata(&NAMES).await?;
    assert_eq!(sorted(queue.metadata().await?), expected);

    let container = fixture.account.container(&unique_name());
    container.create().await?;
    container.set_metadata(&NAMES).await?;
    let properties = container.properties().await?.ok_or("there is a container")?;
    assert_eq!(sorted(properties.metadata), expected);

    let blob = container.blob("a");
    blob.put("x").send().await?;
    blob.set_metadata(&NAMES).await?;
    let properties = blob.properties().await?.ok_or("there is a blob")?;
    assert_eq!(sorted(properties.metadata), expected);
    Ok(())
}
