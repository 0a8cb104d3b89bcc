//! The power of the database's machine goes: its processes are gone at one moment, and with them all that was written and not
//! synced to the disk.

use std::{
    fs::File,
    io::{Seek as _, SeekFrom, Write as _},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{bail, ensure};
use chaos::{
    books::{self, Heard},
    customer::Payment,
    disk::{Disk, Lost},
    server::Server,
    shop::Shop,
    until,
};
use serde_json::json;
use sqlx::PgPool;
use tokio::{task::JoinSet, time::sleep};

use crate::stand::{Stand, all_reserved_are_final, count};

/// Presses before each loss, and how far apart.
const PRESSES: usize = 24;
const APART: Duration = Duration::from_millis(40);
/// So many have been answered when the power goes, and as many are at the provider.
const ANSWERED: usize = 6;
/// How long the provider takes before it charges, and how long until it says so.
const BEFORE_CHARGE_MS: u64 = 60;
const AFTER_CHARGE_MS: u64 = 150;
/// A small log that is written anew often, so that losses find all of Postgres's files at work.
const SMALL_LOG: [&str; 4] = ["min_wal_size=2MB", "max_wal_size=3MB", "checkpoint_timeout=30s", "wal_init_zero=off"];

/// A shop whose database is on a disk that loses what was not synced.
struct Scene {
    shop: Shop,
    // In this order: the server ends before its disk does, and both before their folders go.
    server: Server,
    disk: Disk,
    stand: Stand,
}

/// Where the shop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machine {
    /// On one of its own.
    Apart,
    /// On the database's: it ends at the same moment, and starts anew.
    Same,
}

/// What there was to see right after the power had come back, before the shop went on.
struct Seen {
    lost: Lost,
    /// Charged, and not booked.
    unbooked: usize,
    /// How many had been answered.
    answered: usize,
    /// What had been acknowledged and is gone.
    forgotten: Vec<String>,
}

impl Scene {
    async fn new(settings: &[&str]) -> anyhow::Result<Self> {
        let stand = Stand::new().await?;
        let disk = Disk::mount(stand.folder("disk"))?;
        let settings = [&SMALL_LOG[..], settings].concat();
        let server = Server::make(&disk.folder.join("server"), None, &settings).await?;
        let shop = stand.shop("shop", &Server::url(&[&server])).await?;
        for (kind, ms) in [("delay_before", BEFORE_CHARGE_MS), ("delay_after", AFTER_CHARGE_MS)] {
            stand.sandbox.fault(&json!({"match": {"path": "confirm"}, "fault": {"kind": kind, "ms": ms}})).await?;
        }
        Ok(Self { shop, server, disk, stand })
    }

    /// Customers press, the power goes among them and comes back, the shop goes on. Gives what was seen meanwhile, and what all
    /// were told in the end.
    async fn loses_power(&mut self, payments: &[Payment], shop: Machine) -> anyhow::Result<(Seen, Vec<Heard>)> {
        let (mut presses, heard) = (JoinSet::new(), Arc::new(Mutex::new(Vec::new())));
        for (payment, n) in payments.iter().cloned().zip(0_u32..) {
            let (heard, door) = (Arc::clone(&heard), self.shop.address());
            presses.spawn(async move {
                sleep(APART * n).await;
                // Connections that end are no answer.
                if let Ok(answer) = payment.pay(door).await {
                    heard.lock().unwrap_or_else(PoisonError::into_inner).push(Heard { payment, answer });
                }
            });
        }
        let told = || heard.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let finals = || told().iter().filter(|heard| heard.answer.is_final()).count();
        until("some are answered", Duration::from_secs(20), || async { Ok(finals() >= ANSWERED) }).await?;

        self.server.pause()?;
        let lost = self.disk.cut();
        self.server.kill_all().await?;
        // Ended or standing still until the test has looked, so that nothing that is missing is made again.
        match shop {
            Machine::Apart => self.shop.pause().await?,
            Machine::Same => self.shop.kill().await?,
        }
        let told_before = told();
        self.disk.power().await?;
        self.server.start().await?;
        let seen = self.look(lost, payments, &told_before).await?;
        match shop {
            Machine::Apart => self.shop.resume()?,
            Machine::Same => self.shop.restart().await?,
        }
        while let Some(pressed) = presses.join_next().await {
            pressed?;
        }
        Ok((seen, told()))
    }

    /// One loss after which all that was acknowledged is there, and all that was charged is booked.
    async fn keeps_its_word(&mut self, shop: Machine) -> anyhow::Result<String> {
        let payments = self.stand.payments(&self.shop, &self.server.looking(), PRESSES).await?;
        let (seen, heard) = self.loses_power(&payments, shop).await?;
        ensure!(seen.forgotten.is_empty(), "acknowledged and lost:\n{}", seen.forgotten.join("\n"));
        ensure!(seen.lost.files > 0, "nothing was lost, so that nothing is shown");
        ensure!(seen.unbooked > 0, "nothing was charged and not booked");
        let db = self.server.looking();
        all_reserved_are_final(&db).await?;
        self.stand.all_end_paid(&db, &[self.shop.address()], &payments, heard).await?;
        let Seen { lost: Lost { files, folders }, unbooked, answered, .. } = seen;
        Ok(format!(
            "{files} files and {folders} folders fell back, {answered} answers kept, {unbooked} charges booked later"
        ))
    }

    async fn look(&self, lost: Lost, pressed: &[Payment], told: &[Heard]) -> anyhow::Result<Seen> {
        let (db, sandbox) = (self.server.looking(), &self.stand.sandbox);
        let mut forgotten = Vec::new();
        for payment in pressed {
            // Who sent a confirm had been told that the reservation is committed.
            if let Err(error) = books::check_written_ahead(&db, sandbox, payment).await {
                forgotten.push(format!("{error:#}"));
            }
        }
        let answered = || told.iter().filter(|heard| heard.answer.is_final());
        for Heard { payment, answer } in answered() {
            // The archive byte for byte, the order, the ledger and the events.
            let heard = Heard { payment: payment.clone(), answer: answer.clone() };
            let end = books::check(&db, sandbox, std::slice::from_ref(payment), &[heard]).await;
            match end.as_deref() {
                Ok([account]) if account.state.as_deref() == Some("succeeded") => {}
                Ok(accounts) => forgotten.push(format!("told as paid: {accounts:?}")),
                Err(error) => forgotten.push(format!("{error:#}")),
            }
        }
        let charged = self.stand.charged(pressed).await?;
        let booked = usize::try_from(booked(&db, pressed).await?)?;
        ensure!(booked <= charged, "{booked} of {charged} charges are booked");
        Ok(Seen { lost, unbooked: charged - booked, answered: answered().count(), forgotten })
    }
}

async fn booked(db: &PgPool, payments: &[Payment]) -> anyhow::Result<i64> {
    let orders: Vec<_> = payments.iter().map(|payment| payment.order.id).collect();
    let sql = "select count(*) from ledger_entries where account = 'provider_receivable' and order_id = any($1)";
    Ok(sqlx::query_scalar(sql).bind(orders).fetch_one(db).await?)
}

/// P3: what was acknowledged is there after the loss: each reservation whose charge was sent, each answer byte for byte with its
/// order, ledger and event. What was charged and not booked is booked then, by the same charge: by its executor, or, where the
/// shop was on the same machine, by recovery. A server that is set to acknowledge before it syncs is not let by the shop.
pub async fn lost() -> anyhow::Result<String> {
    let mut usual = Scene::new(&[]).await?;
    let mut told = vec![usual.keeps_its_word(Machine::Apart).await?, usual.keeps_its_word(Machine::Same).await?];
    drop(usual);
    let mut hasty = Scene::new(&["synchronous_commit=off", "wal_writer_delay=10s"]).await?;
    told.push(hasty.keeps_its_word(Machine::Apart).await?);
    Ok(told.join("; "))
}

/// P3, control: without `fsync` the same loss takes reservations and answers that were acknowledged, and the same look finds
/// that. Even then the provider's keys keep every order at one charge.
pub async fn lost_unsynced() -> anyhow::Result<String> {
    let mut scene = Scene::new(&["fsync=off"]).await?;
    let payments = scene.stand.payments(&scene.shop, &scene.server.looking(), PRESSES).await?;
    // The orders have been written out long ago.
    scene.disk.sync();
    let (seen, _) = scene.loses_power(&payments, Machine::Apart).await?;
    let (reserved, answered): (Vec<_>, Vec<_>) = seen.forgotten.iter().partition(|found| found.starts_with("I7"));
    if reserved.is_empty() || answered.is_empty() {
        bail!("a server without fsync lost nothing that was acknowledged, so that the other case shows nothing");
    }
    let db = scene.server.looking();
    all_reserved_are_final(&db).await?;
    scene.stand.all_end_paid(&db, &[scene.shop.address()], &payments, Vec::new()).await?;
    ensure!(count(&db, "select count(*) from discrepancies").await? == 0, "no charge is in doubt");
    let (reserved, answered) = (reserved.len(), answered.len());
    Ok(format!(
        "{reserved} reservations and {answered} answers were acknowledged and lost; {PRESSES} orders, {PRESSES} charges"
    ))
}

/// The disk of these cases by itself: what was synced is there after the loss, byte for byte, and nothing else is.
pub async fn disk_loses() -> anyhow::Result<String> {
    let stand = Stand::new().await?;
    let mut disk = Disk::mount(stand.folder("disk"))?;
    let (folder, other) = (disk.folder.clone(), disk.folder.clone());
    let over_pages: Vec<u8> = (0..=250).cycle().take(20_000).collect();
    let expected = over_pages.clone();
    tokio::task::spawn_blocking(move || use_disk(&folder, &over_pages)).await??;
    let lost = disk.cut();
    ensure!(std::fs::read(other.join("kept")).is_err(), "without power nothing can be read");
    disk.power().await?;
    tokio::task::spawn_blocking(move || {
        ensure!(std::fs::read(other.join("kept"))? == expected, "what was synced is there, and its removal is not");
        ensure!(
            std::fs::read(other.join("zeros"))? == [vec![1; 5_000], vec![0; 7_000]].concat(),
            "cut off, then longer"
        );
        ensure!(std::fs::read(other.join("old"))? == b"renamed", "a name that was not synced falls back");
        let mut names: Vec<_> =
            std::fs::read_dir(other)?.map(|entry| Ok(entry?.file_name())).collect::<Result<_, std::io::Error>>()?;
        names.sort();
        ensure!(names == ["folder", "kept", "old", "zeros"], "and nothing else: {names:?}");
        Ok(())
    })
    .await??;
    let Lost { files, folders } = lost;
    ensure!((files, folders) == (2, 1), "{files} files and {folders} folders");
    Ok(format!("{files} files and {folders} folder fell back"))
}

fn use_disk(folder: &Path, kept: &[u8]) -> std::io::Result<()> {
    let create = |name: &str| File::options().create_new(true).read(true).write(true).open(folder.join(name));
    let (mut file, mut zeros, mut old) = (create("kept")?, create("zeros")?, create("old")?);
    std::fs::create_dir(folder.join("folder"))?;
    file.write_all(kept)?;
    file.sync_all()?;
    zeros.write_all(&[1; 10_000])?;
    zeros.set_len(5_000)?;
    zeros.set_len(12_000)?;
    zeros.sync_data()?;
    old.write_all(b"renamed")?;
    old.sync_data()?;
    // From here on nothing is synced.
    file.seek(SeekFrom::Start(8_000))?;
    file.write_all(b"over the end of a page, and another, and another, and more than that: two hundred bytes or so")?;
    file.set_len(9_000)?;
    std::fs::remove_file(folder.join("kept"))?;
    std::fs::rename(folder.join("old"), folder.join("new"))?;
    create("gone")?.write_all(b"never synced")
}
