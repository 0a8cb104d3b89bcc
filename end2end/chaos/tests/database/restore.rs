//! A backup is restored that is older than what was paid meanwhile: the orders are there, their payments are not.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context as _, ensure};
use chaos::{
    customer::{GOOD_CARD, Payment},
    server::Server,
    shop::{Plan, Shop},
};

use crate::stand::{LEASE, Stand, count, press_each, press_until_final};

/// Orders that were paid after the backup: some customers come again with the UUID that they had, and as many with another, since
/// their browsers forgot it.
const PAID: usize = 12;
const APART: Duration = Duration::from_millis(20);

/// Whoever comes again is told the same as before, byte for byte, and nobody is charged again: the provider knows the key of the
/// one, and that the payment intent of the other has succeeded.
pub async fn restored() -> anyhow::Result<String> {
    let stand = Stand::new().await?;
    let (folder, backup) = (stand.folder("server"), stand.folder("backup"));
    let mut server = Server::make(&folder, None, &[]).await?;
    // Under one name before and after, which is part of what the provider was sent.
    let name = ("PAYONCE_PUBLIC_URL".to_owned(), "http://shop.example".to_owned());
    let plan = Plan { lease: LEASE, more: vec![name], ..Plan::default() };
    let mut shop = Shop::start("shop", &Server::url(&[&server]), &stand.sandbox.url, &plan).await?;
    let db = server.looking();
    let payments = stand.payments(&shop, &db, PAID).await?;

    // While everything stands still, as a snapshot of the disk is taken.
    server.pause()?;
    copy(&folder, &backup)?;
    server.resume()?;
    let told = press_each(&[shop.address()], &payments, APART).await?;
    ensure!(told.iter().filter(|heard| heard.answer.is_final()).count() == PAID, "all are paid: {told:?}");

    shop.kill().await?;
    server.kill_all().await?;
    std::fs::remove_dir_all(&folder)?;
    copy(&backup, &folder)?;
    server.start().await?;
    shop.restart().await?;
    ensure!(count(&db, "select count(*) from intents").await? == 0, "the backup is older than the payments");

    let (same, others) = payments.split_at(PAID / 2);
    for payment in others {
        let another = Payment::of(&payment.order, GOOD_CARD);
        let answer = press_until_final(&[shop.address()], &another).await?.pop().context("an answer")?.answer.json()?;
        let before = told.iter().find(|heard| heard.payment.intent == payment.intent).context("what was told")?;
        ensure!(answer["state"] == "SUCCEEDED" && answer["charge"] == before.answer.json()?["charge"], "{answer}");
    }
    let told = told.into_iter().filter(|heard| same.iter().any(|payment| payment.intent == heard.payment.intent));
    stand.all_end_paid(&db, &[shop.address()], same, told.collect()).await?;
    ensure!(stand.charged(&payments).await? == PAID, "nobody is charged again");
    Ok(format!("{PAID} payments that the backup did not have are paid, by the charges that there were"))
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().context("cp")?;
    ensure!(copied.success(), "{} cannot be copied", from.display());
    Ok(())
}
