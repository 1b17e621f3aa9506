//! The entity of the tour, and the file it comes from.

use std::collections::BTreeMap;
use std::path::Path;

use rowkey::{Entity, Projection};

/// An airport: a partition a state, a row a code.
#[derive(Clone, Debug, PartialEq, Entity)]
#[entity(partition = "{state}", row = "{iata}")]
pub(crate) struct Airport {
    pub(crate) state: String,
    pub(crate) iata: String,
    pub(crate) name: String,
    pub(crate) city: String,
    pub(crate) country: String,
    pub(crate) latitude: f64,
    pub(crate) longitude: f64,
    /// The number of lookups: absent until the first one.
    pub(crate) visits: Option<i32>,
}

/// The two columns that a list of places needs.
#[derive(Debug, Projection)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) city: String,
}

/// The airports of the file, by state.
pub(crate) fn read() -> Result<BTreeMap<String, Vec<Airport>>, csv::Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/airports.csv");
    let mut states = BTreeMap::<_, Vec<_>>::new();
    for record in csv::Reader::from_path(path)?.deserialize() {
        let (iata, name, city, state, country, latitude, longitude) = record?;
        let airport =
            Airport { state, iata, name, city, country, latitude, longitude, visits: None };
        states.entry(airport.state.clone()).or_default().push(airport);
    }
    Ok(states)
}
