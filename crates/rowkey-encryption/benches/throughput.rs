//! The CPU time of encrypting and decrypting an entity, without its requests: `cargo bench -p
//! rowkey-encryption`. Linux only: the CPU time comes from the kernel, so other load has little influence.

#![expect(clippy::print_stdout, reason = "it says what it measured")]

use std::hint::black_box;

use rowkey_client::{DynamicEntity, Entity, Projection, StorageAccount};
use rowkey_encryption::{AesKeyWrap, KeyRing, MacKey};
use rowkey_store::{Op, Sealer as _};

type Failure = Box<dyn std::error::Error>;

/// The number of rounds of each measurement; the median is reported.
const ROUNDS: usize = 9;
const ENTITIES: u32 = 2_000;

#[derive(Clone, Entity)]
#[entity(crate = "rowkey_client")]
#[entity(store, partition = "{ward}", row = "patient_{number:6}")]
struct Patient {
    ward: String,
    number: u32,
    #[entity(encrypt)]
    name: String,
    #[entity(encrypt)]
    findings: String,
    #[entity(encrypt)]
    scan: Vec<u8>,
    bed: i32,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    // The first write stores a branch key; all others send nothing.
    let server = rowkey_emulator::Server::start().await?;
    let account = StorageAccount::from_connection_string(server.connection_string())?;
    let table = account.table("patients");
    table.create().await?;
    let signer = MacKey::new("records", [9; 32]);
    let ring = KeyRing::new("patients", AesKeyWrap::new("2026", [7; 32]), signer);
    let names = Patient::DECLARED.encrypted;
    let mut write = 0_u64;
    for bytes in [20, 330, 21_800] {
        let text = "x".repeat(bytes);
        let patient = Patient {
            ward: "north".into(),
            number: 7,
            name: text.clone(),
            findings: text.clone(),
            scan: text.into(),
            bed: 3,
        };
        let (mut plain, mut encrypt, mut decrypt) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let began = cpu()?;
            for _ in 0..ENTITIES {
                black_box(DynamicEntity::of(black_box(&patient))?.read_as::<Patient>()?);
            }
            plain.push((cpu()? - began) / f64::from(ENTITIES));

            let began = cpu()?;
            let mut row = DynamicEntity::of(&patient)?;
            for _ in 0..ENTITIES {
                write += 1;
                let op = Op::new(chrono::DateTime::UNIX_EPOCH, write.to_be_bytes());
                row = DynamicEntity::of(black_box(&patient))?;
                ring.seal(&op, &table, names, None, &mut row).await?;
            }
            encrypt.push((cpu()? - began) / f64::from(ENTITIES));

            let began = cpu()?;
            for _ in 0..ENTITIES {
                let mut row = row.clone();
                ring.open(&table, names, &mut row).await?;
                black_box(row.read_as::<Patient>()?);
            }
            decrypt.push((cpu()? - began) / f64::from(ENTITIES));
        }
        println!(
            "3 properties of {bytes} bytes: encrypt {:.1} us, decrypt {:.1} us; to and from a row in \
             plain {:.1} us",
            median(encrypt),
            median(decrypt),
            median(plain)
        );
    }
    Ok(())
}

/// The CPU time of this thread in microseconds.
fn cpu() -> Result<f64, Failure> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds: f64 = text.split(' ').next().unwrap_or_default().parse()?;
    Ok(nanoseconds / 1000.0)
}

fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}
