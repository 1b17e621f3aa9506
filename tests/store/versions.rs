//! One version an entity, however it is read.

use rowkey::ErrorKind;
use rowkey::store::Version;
use rowkey_tests::TestResult;

use super::rows::{Order, agreed, order, start, store};

#[tokio::test]
async fn the_version_of_any_read_guards_the_next_write() -> TestResult {
    let (server, account) = start().await?;
    let orders = store(&account)?;
    let inserted = orders.insert(&order(1)).await?.version;
    let reads = async || {
        let reads = [
            orders.get(Order::key("contoso", 1)).await?,
            orders.find(Order::by_desk("contoso", 1_u32)).await?,
            orders.find(Order::by_courier("kim", "contoso", 1_u32)).await?,
            orders.find(Order::by_number("A1")).await?,
        ];
        Ok::<_, rowkey::Error>(reads.map(|read| read.unwrap()))
    };
    let mut old = vec![inserted.clone()];
    for (at, _) in reads().await?.iter().enumerate() {
        let read = reads().await?[at].clone();
        // As the header of an answer, and back from the header of a request.
        let version: Version = read.version.to_string().parse()?;
        let cents = i64::try_from(at)?;
        orders.replace_if(&Order { cents, ..read.entity }, &version).await?;
        old.push(version);
        assert_eq!(agreed(&server.snapshot(), true), [("order_0001".into(), cents)]);
        for version in &old {
            let error = orders.replace_if(&order(1), version).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{version}");
            let error = orders.delete_if(Order::key("contoso", 1), version).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict);
        }
    }
    for read in reads().await? {
        assert_eq!(read.entity.cents, 3);
    }
    let version = orders.find(Order::by_desk("contoso", 1_u32)).await?.unwrap().version;
    orders.delete_if(Order::key("contoso", 1), &version).await?;
    assert!(agreed(&server.snapshot(), true).is_empty());
    Ok(())
}
