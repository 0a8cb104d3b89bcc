//! `cargo xtask run`: from a fresh clone to a shop that one can pay in.

use std::{
    net::SocketAddr,
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use crate::{
    build,
    command::{command, target},
    database, report,
    serving::{Serving, answers, pause},
};

/// The first start may have to download a database and lay it out.
const READY_SECONDS_MAX: u64 = 900;
const PROGRESS_SECONDS: u64 = 10;

pub fn run() -> anyhow::Result<()> {
    let shop = address("PAYONCE_ADDR", "127.0.0.1:3000")?;
    let sandbox = address("PAYONCE_SANDBOX_ADDR", "127.0.0.1:3001")?;
    database::ensure_installed();
    build()?;

    // From here on Ctrl-C ends the shop, not us: we end after it.
    let (sender, interrupted) = channel();
    ctrlc::set_handler(move || {
        // The receiver lives as long as this process.
        let _ = sender.send(());
    })
    .context("Ctrl-C cannot be listened to")?;
    report::step("starting the shop");
    let mut payonce = command(target("release/payonce"), &["serve", "--until-stdin-closes"]);
    let mut running = Serving::start(&mut payonce)?;
    if wait_until_ready(&mut running, shop, &interrupted)? {
        announce(shop, sandbox);
        wait_for_the_end(&mut running, &interrupted)?;
    }
    report::step("stopping");
    running.stop()
}

/// False when Ctrl-C came first.
fn wait_until_ready(running: &mut Serving, shop: SocketAddr, interrupted: &Receiver<()>) -> anyhow::Result<bool> {
    let started = Instant::now();
    let mut next_progress = PROGRESS_SECONDS;
    while !answers(shop, "/readyz") {
        if interrupted.try_recv().is_ok() {
            return Ok(false);
        }
        if let Some(status) = running.ended()? {
            bail!("the shop ended before it was ready ({status}); its last lines above say why");
        }
        let seconds = started.elapsed().as_secs();
        if seconds >= READY_SECONDS_MAX {
            running.kill();
            bail!("the shop was not ready after {READY_SECONDS_MAX} s");
        }
        if seconds >= next_progress {
            next_progress += PROGRESS_SECONDS;
            report::note(format_args!("not ready yet ({seconds} s of at most {READY_SECONDS_MAX} s)"));
        }
        pause();
    }
    Ok(true)
}

fn announce(shop: SocketAddr, sandbox: SocketAddr) {
    report::step("ready");
    report::note(format_args!("shop              http://{shop}"));
    if !is_set("PAYONCE_PROVIDER_URL") {
        report::note(format_args!("sandbox provider  http://{sandbox}  (what was really charged: /_sandbox/ledger)"));
    }
    report::note("pay with card 4242 4242 4242 4242, any code, any month to come; Ctrl-C stops everything");
}

/// Until Ctrl-C, or until the shop ends by itself, which is an error.
fn wait_for_the_end(running: &mut Serving, interrupted: &Receiver<()>) -> anyhow::Result<()> {
    while interrupted.recv_timeout(Duration::from_millis(200)).is_err() {
        if let Some(status) = running.ended()? {
            bail!("the shop ended by itself ({status}); its last lines above say why");
        }
    }
    Ok(())
}

/// Where a service can be reached from this machine; `payonce` itself judges the setting.
fn address(name: &str, default: &str) -> anyhow::Result<SocketAddr> {
    let text = setting(name).unwrap_or_else(|| default.to_owned()).replace("localhost:", "127.0.0.1:");
    let mut address: SocketAddr =
        text.parse().with_context(|| format!("{name} is {text:?}, which is no address with a port"))?;
    if address.port() == 0 {
        bail!("{name} must name a port here, so that its address can be told");
    }
    if address.ip().is_unspecified() {
        address.set_ip([127, 0, 0, 1].into());
    }
    Ok(address)
}

fn is_set(name: &str) -> bool {
    setting(name).is_some()
}

#[expect(clippy::disallowed_methods, reason = "this tool has to know where the shop that it starts will listen")]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
