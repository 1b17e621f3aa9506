//! An index in blobs that follows the changes of a source: the writers know nothing of it.

use rowkey::{Entity, StorageAccount};
use rowkey_eventual::source::{Follower, Primary, Source, Target};
use rowkey_eventual::worker::{Done, Step};
use rowkey_large::BlobIndex;
use rowkey_server::Server;
use rowkey_tests::TestResult;

#[derive(Clone, Debug, Entity)]
#[entity(partition = "{department}", row = "id_{id:6}")]
struct Clerk {
    department: String,
    id: u32,
    city: String,
}

fn index(account: &StorageAccount) -> BlobIndex<Clerk> {
    let (table, container) = (account.table("clerks"), account.container("indexes"));
    BlobIndex::new(table, container, "city", |clerk: &Clerk| Some(clerk.city.clone()))
}

fn follower(index: BlobIndex<Clerk>) -> Follower<Clerk> {
    let values = index.clone();
    Follower::new(
        "city",
        move |clerk: &Clerk| Ok(values.value_of(clerk).into_iter().map(Target::new).collect()),
        move |primary: Primary<Clerk>, city| {
            let index = index.clone();
            async move {
                let changed = index.settle(primary.key().clone(), &city).await?;
                Ok(if changed { Done::Applied } else { Done::AlreadyApplied })
            }
        },
    )
}

#[tokio::test]
async fn an_index_follows_the_changes_of_a_source() -> TestResult {
    let server = Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    account.container("indexes").create().await?;
    let index = index(&account);
    let (table, queue) = (account.table("clerks"), account.queue("clerk-changes"));
    let clerks = Source::new(table, queue, [follower(index.clone())])?;
    clerks.create_if_missing().await?;
    for id in 1..=3 {
        let city = "Leeds".into();
        clerks.insert(&Clerk { department: "sales".into(), id, city }).await?;
    }
    clerks.update(Clerk::key("sales", 2), |clerk| clerk.city = "York".into()).await?;
    assert!(index.find("Leeds").await?.is_empty(), "nobody has worked yet");
    // The second clerk is in York by now, so being listed in Leeds is asked for no more.
    for step in [Step::Handled, Step::Suppressed, Step::Handled, Step::Handled] {
        assert_eq!(clerks.worker().step().await?, step);
    }
    let ids = async |city: &str| -> rowkey::Result<Vec<u32>> {
        Ok(index.find(city).await?.iter().map(|stored| stored.entity.id).collect())
    };
    assert_eq!((ids("Leeds").await?, ids("York").await?), (vec![1, 3], vec![2]));
    let york = clerks.get(Clerk::key("sales", 2)).await?.unwrap();
    clerks.delete(&york).await?;
    assert_eq!(clerks.worker().step().await?, Step::Handled);
    assert!(index.keys("York").await?.is_empty());
    assert!(index.verify().await?.is_sound());
    Ok(())
}
