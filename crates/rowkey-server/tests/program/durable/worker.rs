//! What one client did, and what may therefore be there after the server was killed.
//!
//! A client has things of its own that no other client touches, and sends one request at a time. So
//! what is there is exactly what it was told of; or, of the one request whose answer never came,
//! also what that would have done, all of it.

use std::fmt::Debug;
use std::io;

use rowkey_emulator::{Server, Service, Snapshot};

use super::program::Addresses;
use crate::support::Client;

/// A small generator, so that a failure can be repeated by its seed.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 33).unwrap() % end
    }
}

/// The data of a client on the server, and its operations.
pub(super) trait State: Clone + Debug + Send {
    /// The service that it is a client of.
    const SERVICE: Service;

    /// Creates the initial resources if they are missing.
    fn prepare(&self, client: &mut Client) -> io::Result<()>;

    /// Sends a request. Says in `possible` what may be there once it is sent, and becomes what is
    /// there when it is answered.
    fn step(
        &mut self,
        random: &mut Random,
        client: &mut Client,
        possible: &mut Vec<Self>,
    ) -> io::Result<()>;

    /// The data as observed on a server.
    fn observe(&self, server: &Server, snapshot: &Snapshot) -> Self;

    /// Whether what a server has is this. What is not known of this may be anything.
    fn allows(&self, observed: &Self) -> bool;
}

/// A client, over many lives of the server.
#[derive(Debug)]
pub(super) struct Worker<S> {
    random: Random,
    known: S,
    /// What else may be there.
    possible: Vec<S>,
}

/// The same for workers of all sorts.
pub(super) trait Work: Send {
    /// Sends requests until the connection breaks; calls `answered` with each response.
    fn work(&mut self, program: &Addresses, answered: &(dyn Fn() + Sync));

    /// Fails if a server lacks acknowledged data, or has impossible data.
    fn check(&mut self, server: &Server, snapshot: &Snapshot);
}

impl<S: State> Worker<S> {
    pub(super) fn new(seed: u64, state: S) -> Self {
        Self { random: Random(seed), known: state, possible: Vec::new() }
    }

    fn try_work(&mut self, program: &Addresses, answered: &(dyn Fn() + Sync)) -> io::Result<()> {
        let mut client = program.connect(S::SERVICE).ok_or(io::ErrorKind::ConnectionRefused)?;
        self.known.prepare(&mut client)?;
        loop {
            self.known.step(&mut self.random, &mut client, &mut self.possible)?;
            self.possible.clear();
            answered();
        }
    }
}

impl<S: State> Work for Worker<S> {
    fn work(&mut self, program: &Addresses, answered: &(dyn Fn() + Sync)) {
        self.try_work(program, answered).unwrap_err();
    }

    fn check(&mut self, server: &Server, snapshot: &Snapshot) {
        // Each model keeps the details that cannot be observed, such as the content of a block.
        let found = std::iter::once(&self.known).chain(&self.possible).find_map(|possible| {
            let observed = possible.observe(server, snapshot);
            possible.allows(&observed).then_some(observed)
        });
        self.known = found.unwrap_or_else(|| {
            panic!(
                "there is {:#?}\n, acknowledged was {:#?}\n, and possible {:#?}",
                self.known.observe(server, snapshot),
                self.known,
                self.possible
            )
        });
        self.possible.clear();
    }
}
