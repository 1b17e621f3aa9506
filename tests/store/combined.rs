//! Copies elsewhere, rows in other tables and shared requests together: each keeps its promises beside the others.

use std::collections::BTreeMap;
use std::time::Duration;

use rowkey::store::{RemoteCopies, Settled, Store};
use rowkey::{Entity, StorageAccount};
use rowkey_emulator::{ErrorCode, Fault, Server};
use rowkey_tests::TestResult;
use rowkey_tests::sweep::{account, account_named};

/// A team, whose name is copied. Its index is in a table of another account.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "teams", row = "team_{id:4}")]
#[entity(index(name = by_site, table = "sites", partition = "{site}", row = "{id:4}"))]
struct Team {
    id: u32,
    name: String,
    site: String,
    /// The partition of its players.
    players: String,
}

fn team(id: u32, name: &str) -> Team {
    Team { id, name: name.into(), site: "leeds".into(), players: "p".into() }
}

/// A player with properties whose names are data.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{of}", row = "player_{id:6}")]
struct Player {
    of: String,
    id: u32,
    team: Option<String>,
    #[entity(rest)]
    scores: BTreeMap<String, i32>,
}

fn player(id: u32) -> Player {
    let scores = [("Monday".to_owned(), 7)].into();
    Player { of: "p".into(), id, team: None, scores }
}

const NAMES: [&str; 2] = ["current", "archive"];

async fn server() -> TestResult<Server> {
    let [current, archive] = NAMES;
    let key = ["a2V5"];
    let server = Server::builder().account(current, key).account(archive, key).manual_clock();
    Ok(server.start().await?)
}

fn teams(server: &Server) -> Result<(StorageAccount, Store<Team>), rowkey::Error> {
    let [current, archive] = NAMES;
    let (current, archive) = (account_named(server, current)?, account_named(server, archive)?);
    let names = RemoteCopies::new(
        "team",
        &current.table("players"),
        |team: &Team| [Player::partition(&team.players)],
        |team| team.name.clone(),
        |player: &mut Player, name| player.team = name.cloned(),
    );
    let store = Store::builder(current.table("teams"))
        .queue(current.queue("teams"))
        .index_table("by_site", archive.table("sites"))
        .with(names)
        .build()?;
    Ok((current, store))
}

/// The types of the targets have a field for all other properties. The name of the source is not one of them.
#[tokio::test]
async fn a_target_with_properties_of_any_name_keeps_the_name_of_its_source() -> TestResult {
    let server = server().await?;
    let (current, teams) = teams(&server)?;
    teams.create_if_missing().await?;
    let players = current.table("players");
    players.create_if_missing().await?;
    players.insert(&player(1)).await?;
    for name in ["red", "blue"] {
        teams.upsert(&team(1, name)).await?;
        let now = players.get(Player::key("p", 1)).await?.unwrap().entity;
        assert_eq!(now, Player { team: Some(name.into()), ..player(1) });
    }
    teams.delete(Team::key(1)).await?;
    assert_eq!(players.get(Player::key("p", 1)).await?.unwrap().entity, player(1));
    Ok(())
}

/// A seat with a store, and with properties whose names are data.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "{of}", row = "seat_{id:6}")]
struct Seat {
    of: String,
    id: u32,
    team: Option<String>,
    #[entity(rest)]
    notes: BTreeMap<String, String>,
}

/// A seat in the rows of its properties.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, wide = 4, parts, partition = "{of}", row = "chair_{id:6}")]
struct Chair {
    of: String,
    id: u32,
    team: Option<String>,
    #[entity(rest)]
    notes: BTreeMap<String, String>,
}

macro_rules! own_copy {
    ($type:ident, $table:expr) => {{
        let server = Server::builder().manual_clock().start().await?;
        let account = account(&server)?;
        let seats = Store::<$type>::builder(account.table($table)).build()?;
        seats.create_if_missing().await?;
        let notes = BTreeMap::from([("Lamp".to_owned(), "dim".to_owned())]);
        seats.insert(&$type { of: "p".into(), id: 1, team: None, notes: notes.clone() }).await?;
        let names = RemoteCopies::through(
            "team",
            &seats,
            |team: &Plain| [$type::partition(&team.players)],
            |team| team.name.clone(),
            |seat: &mut $type, name| seat.team = name.cloned(),
        );
        let teams = Store::<Plain>::builder(account.table("teams"))
            .queue(account.queue("teams"))
            .with(names)
            .build()?;
        teams.create_if_missing().await?;
        let of = |id, name: &str| Plain { id, name: name.into(), players: "p".into() };
        teams.insert(&of(1, "red")).await?;
        teams.insert(&of(2, "blue")).await?;
        // The first one goes: the copy of the second one stays.
        teams.delete(Plain::key(1)).await?;
        let now = seats.get($type::key("p", 1)).await?.unwrap().entity;
        assert_eq!((now.team.as_deref(), &now.notes), (Some("blue"), &notes));
        seats.patch($type::key("p", 1)).set_named("Lamp", "bright".to_owned()).send().await?;
        teams.delete(Plain::key(2)).await?;
        let now = seats.get($type::key("p", 1)).await?.unwrap().entity;
        assert_eq!((now.team, &*now.notes["Lamp"], now.notes.len()), (None, "bright", 1));
        assert!(seats.verify().run().await?.is_clean());
    }};
}

/// A team without an index.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(store, partition = "teams", row = "team_{id:4}")]
struct Plain {
    id: u32,
    name: String,
    players: String,
}

#[tokio::test]
async fn a_source_takes_away_its_own_copy_from_targets_with_properties_of_any_name() -> TestResult {
    own_copy!(Seat, "seats");
    own_copy!(Chair, "chairs");
    Ok(())
}

/// The account of the index is down: the copies, in an account that is up, go on in turns.
#[tokio::test]
async fn copies_go_on_in_turns_while_the_account_of_an_index_is_unavailable() -> TestResult {
    let server = server().await?;
    let (current, _) = teams(&server)?;
    teams(&server)?.1.create_if_missing().await?;
    let players = current.table("players");
    players.create_if_missing().await?;
    for chunk in (0..2300).collect::<Vec<_>>().chunks(100) {
        let insert = |transaction: rowkey::Transaction, id: &u32| transaction.insert(&player(*id));
        chunk.iter().fold(players.transaction(), insert).submit().await?;
    }
    let down = server.inject(Fault::any().resource("sites").reject(ErrorCode::SERVER_BUSY));
    assert_eq!(teams(&server)?.1.insert(&team(1, "red")).await?.settled, Settled::Pending);
    let shown = || {
        let snapshot = server.snapshot();
        let rows = snapshot.table("players").unwrap().entities();
        rows.filter(|row| row.get("team").is_some()).count()
    };
    assert_eq!(shown(), 1000);
    for expected in [2000, 2300] {
        server.clock().advance(Duration::from_secs(3601));
        let worked = teams(&server)?.1.work_once().await?;
        assert_eq!(worked.settled, 0, "{worked:?}");
        assert_eq!(shown(), expected);
    }
    drop(down);
    for _ in 0..5 {
        server.clock().advance(Duration::from_secs(3601));
        teams(&server)?.1.work_once().await?;
    }
    let (_, teams) = teams(&server)?;
    assert!(teams.find(Team::by_site("leeds", 1)).await?.is_some());
    assert!(teams.verify().run().await?.is_clean());
    assert_eq!(server.snapshot().queue("teams").unwrap().messages().count(), 0);
    Ok(())
}
