//! A disk is full, and then it is not.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use chaos::{server::Server, until};
use tokio::{process::Command, time::sleep};

use crate::stand::{Stand, all_reserved_are_final, count, is_ready, press_each};

/// A small disk of its own, in memory.
struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// # Errors
    /// Where disks cannot be mounted, which needs root.
    async fn mount(folder: PathBuf, megabytes: u32) -> anyhow::Result<Self> {
        fs::create_dir(&folder)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m,mode=0711"), "tmpfs"]).arg(&folder);
        let output = mount.output().await.context("mount")?;
        ensure!(
            output.status.success(),
            "this case needs a small disk, and mounting one (as root, with CAP_SYS_ADMIN) failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(Self { folder })
    }

    /// Writes until there is no byte left.
    fn fill(&self) -> anyhow::Result<()> {
        let mut ballast = fs::OpenOptions::new().create(true).append(true).open(self.ballast())?;
        for piece in [65_536, 4_096, 1] {
            while ballast.write_all(&vec![b'x'; piece]).is_ok() {}
        }
        Ok(())
    }

    fn free(&self) -> anyhow::Result<()> {
        Ok(fs::remove_file(self.ballast())?)
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, since a server may still be ending on it. Nobody is left to tell of a failure.
        let _ = std::process::Command::new("umount").arg("--lazy").arg(&self.folder).status();
    }
}

/// P7, data: the tables of a payment are on a disk that fills up. Every new row takes a new page, so that each needs space.
pub async fn data_full() -> anyhow::Result<String> {
    let stand = Stand::new().await?;
    let disk = Disk::mount(stand.folder("disk"), 16).await?;
    let server = Server::make(&stand.folder("server"), None, &[]).await?;
    let (shop, db) = (stand.shop("shop", &Server::url(&[&server])).await?, server.looking());
    move_to(&server, &disk.folder, &db).await?;
    let mut payments = stand.payments(&shop, &db, 20).await?;
    let late = payments.split_off(12);
    let shops = [shop.address()];

    // Twelve are at the provider when the disk fills up: charged, and not to be booked.
    stand.slow_confirms(700).await?;
    let (heard, seen) = tokio::join!(press_each(&shops, &payments, Duration::ZERO), async {
        until("twelve are at the provider", Duration::from_secs(10), || async {
            Ok(count(&db, "select count(*) from intents where state = 'pending'").await? == 12)
        })
        .await?;
        disk.fill()?;
        until("twelve are charged", Duration::from_secs(10), || async { Ok(stand.charged(&payments).await? == 12) })
            .await?;
        sleep(Duration::from_millis(500)).await;
        let open = count(&db, "select count(*) from intents where finished_at is null").await?;
        ensure!(open > 0, "the disk kept some of them from being booked");
        let told = press_each(&shops, &late, Duration::ZERO).await?;
        ensure!(told.len() == late.len(), "each was answered");
        let refused = told.into_iter().filter(|heard| heard.answer.status == 503);
        let refused: Vec<_> = refused.map(|heard| heard.payment).collect();
        ensure!(!refused.is_empty() && stand.charged(&refused).await? == 0, "what was refused is not charged");
        disk.free()?;
        anyhow::Ok((open, refused.len()))
    });
    let (open, refused) = seen?;
    let took = all_reserved_are_final(&db).await?;
    payments.extend(late);
    stand.all_end_paid(&db, &shops, &payments, heard?).await?;
    Ok(format!(
        "{refused} of 8 refused with 503, {open} of 12 charged and not booked; all final {took:.1?} after there was space"
    ))
}

/// Puts the tables that a payment writes to onto the disk.
async fn move_to(server: &Server, disk: &Path, db: &sqlx::PgPool) -> anyhow::Result<()> {
    let folder = disk.join("tables");
    fs::create_dir(&folder)?;
    server.own(&folder)?;
    let sql = format!("create tablespace small location '{}'", folder.display());
    sqlx::query(sqlx::AssertSqlSafe(sql)).execute(db).await?;
    for table in ["intents", "ledger_entries", "outbox_events"] {
        let sql = format!("alter table {table} set tablespace small");
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(db).await?;
        let sql = format!("alter table {table} set (fillfactor = 10, autovacuum_enabled = off)");
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(db).await?;
    }
    Ok(())
}

/// P7, log: the disk of the write-ahead log fills up. The server panics, and cannot come back before there is space.
pub async fn log_full() -> anyhow::Result<String> {
    let stand = Stand::new().await?;
    let disk = Disk::mount(stand.folder("disk"), 64).await?;
    let limits = ["min_wal_size=2MB", "max_wal_size=4MB", "wal_recycle=off"];
    let mut server = Server::make(&stand.folder("server"), Some(&disk.folder), &limits).await?;
    let (shop, db) = (stand.shop("shop", &Server::url(&[&server])).await?, server.looking());
    let mut payments = stand.payments(&shop, &db, 16).await?;
    let late = payments.split_off(8);
    let shops = [shop.address()];
    stand.slow_confirms(700).await?;
    let (heard, seen) = tokio::join!(press_each(&shops, &payments, Duration::ZERO), async {
        until("eight are at the provider", Duration::from_secs(10), || async {
            Ok(count(&db, "select count(*) from intents where state = 'pending'").await? == 8)
        })
        .await?;
        disk.fill()?;
        // Somebody writes a lot; the log needs its next file, and the server panics.
        let ends = sqlx::query("create table much as select repeat('x', 1000) from generate_series(1, 20000)")
            .execute(&db)
            .await;
        ensure!(ends.is_err(), "there was no space for it");
        until("not ready", Duration::from_secs(10), || async { Ok(!is_ready(&shop).await?) }).await?;
        let told = press_each(&shops, &late, Duration::ZERO).await?;
        ensure!(told.len() == 8 && told.iter().all(|heard| heard.answer.status == 503), "503 for each: {told:?}");
        ensure!(stand.charged(&late).await? == 0, "nothing is charged that is not reserved");
        disk.free()?;
        server.start().await?;
        anyhow::Ok(())
    });
    seen?;
    shop.ready().await.context("ready again, with no restart")?;
    let took = all_reserved_are_final(&db).await?;
    payments.extend(late);
    stand.all_end_paid(&db, &shops, &payments, heard?).await?;
    Ok(format!("8 refused with 503, 8 charged meanwhile; all final {took:.1?} after the server was back"))
}
