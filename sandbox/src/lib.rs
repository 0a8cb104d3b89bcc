//! The stand-in payment provider: what a shop is tried against instead of the real one.
//!
//! It speaks the real provider's API as far as a checkout needs it (payment intents, payment methods, charges, refunds,
//! disputes, events and signed webhooks; form-encoded requests, JSON answers, idempotency keys, test cards and tokens), keeps a durable journal, and is the
//! source of truth of every test: its ledger counts what was really charged. It shares no code with the shop and is known
//! to it by its HTTP API only. It never writes, logs or shows a card number or a security code.
//!
//! # Promises
//! - A payment intent is charged at most once, whatever keys, clients, crashes and faults there are.
//! - No answer and no event leaves before everything it rests on is in the journal.
//!
//! # Control surface
//! `README.md` beside this crate documents every call with examples; in short:
//!
//! | call | what it does |
//! |---|---|
//! | `GET /_sandbox/ledger[?order=…&payment_intent=…]` | charges and refunds that really happened |
//! | `GET /_sandbox/calls[?order=…&payment_intent=…&call=…]` | the newest 1000 calls and what became of them |
//! | `POST /_sandbox/faults` | sets a fault |
//! | `GET /_sandbox/faults`, `DELETE /_sandbox/faults` | shows the faults; takes them back and ends running delays |
//! | `POST /_sandbox/webhook_endpoints[/{id}/rotate]` | makes an endpoint with a given secret; rotates the secret |
//! | `GET /_sandbox/deliveries` | the newest tries to deliver events |
//! | `POST /_sandbox/events[/{id}/deliver]` | makes an event that nothing caused; delivers one again |
//! | `POST /_sandbox/charges[/bulk]`, `POST /_sandbox/refunds` | payments and refunds made elsewhere |
//! | `POST /_sandbox/refunds/{id}`, `POST /_sandbox/disputes[/{id}]` | settles a refund; opens and moves a dispute |
//! | `POST /_sandbox/payment_intents/{id}/expire` | lets the bank stop waiting |
//! | `DELETE /_sandbox/keys` | forgets all idempotency keys |
//! | `DELETE /_sandbox/state` | forgets everything |
//!
//! # Reading order
//! `routes` (every call on one screen), `call` (the way of a call), `intents` and `refunds` (what it does), `records`, `state`
//! and `journal` (what is kept), `events`, `delivery`, `idempotency`, `faults`, `net`.

#![forbid(unsafe_code)]

mod answer;
mod bank;
mod bulk;
mod call;
mod calls;
mod cards;
mod charges;
mod clock;
mod control;
mod control_money;
mod control_webhooks;
mod deliveries;
mod delivery;
mod disputes;
mod events;
mod fault_kinds;
mod faults;
mod form;
mod hosted;
mod idempotency;
mod ids;
mod intents;
mod journal;
mod later;
mod lists;
mod money;
mod net;
mod pages;
mod records;
mod refunds;
mod render;
mod request;
mod routes;
mod signing;
mod state;
mod strike;
mod table;
mod tokens;
mod webhooks;
mod written;

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, options, post};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::calls::Calls;
use crate::delivery::Courier;
pub use crate::delivery::Webhooks;
use crate::events::Cause;
use crate::faults::Faults;
use crate::idempotency::UnderWay;
use crate::journal::{Entry, Journal};
use crate::net::{Closings, Door};
use crate::state::{Change, Put, State};
pub use crate::webhooks::SetEndpoint;
use crate::written::Written;

/// How long open requests may take to end after `shutdown`.
const DRAIN_SECONDS: Duration = Duration::from_secs(5);
/// How long a request's head, and its body, may take to arrive.
const READ_SECONDS: Duration = Duration::from_secs(10);
const MAX_CONTROL_BODY_BYTES: usize = 64 * 1024;

/// How a sandbox runs.
#[derive(Clone)]
pub struct Config {
    /// Folder of the journal; made if it is absent.
    pub data_dir: PathBuf,
    /// What `Authorization: Bearer` must carry on calls of a shop's server, e.g. `sk_test_payonce`.
    pub secret_key: String,
    /// What browsers send to tokenise a card, e.g. `pk_test_payonce`.
    pub publishable_key: String,
    /// Whether each journal entry is flushed to the disk before its answer goes out. Without it entries are only written,
    /// which survives the end of the process but not a power cut.
    pub journal_sync: bool,
    /// How long an idempotency key is remembered; the real provider says at least 24 hours.
    pub key_memory: Duration,
    /// How long the bank waits for the customer's decision.
    pub bank_wait: Duration,
    /// How long a refund takes that is not settled at once.
    pub refund_wait: Duration,
    /// Where events are sent, and how.
    pub webhooks: Webhooks,
}

impl Config {
    /// As a sandbox runs where nothing else is said, with its journal in this folder.
    pub fn at(data_dir: PathBuf) -> Self {
        Self {
            data_dir,
            secret_key: "sk_test_payonce".to_owned(),
            publishable_key: "pk_test_payonce".to_owned(),
            journal_sync: true,
            key_memory: Duration::from_hours(24),
            bank_wait: Duration::from_mins(15),
            refund_wait: Duration::from_mins(1),
            webhooks: Webhooks::default(),
        }
    }
}

/// Why a sandbox could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The listener could not be used or made again.
    #[error("the sandbox cannot listen: {0}")]
    Listen(#[source] std::io::Error),
    /// The journal could not be opened or read.
    #[error("the sandbox's journal {path} cannot be read: {source}", path = path.display())]
    Journal {
        /// The journal's file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Another sandbox writes this journal.
    #[error("the sandbox's journal {path} is used by another sandbox that is running", path = path.display())]
    InUse {
        /// The journal's file.
        path: PathBuf,
    },
    /// A line before the last is not an entry: the file was changed by something else.
    #[error("line {line} of the sandbox's journal {path} is damaged: {what}", path = path.display())]
    Damaged {
        /// The journal's file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// An endpoint of the settings is none.
    #[error("the sandbox's webhook endpoint is not right: {0}")]
    Endpoint(String),
    /// The journal could not be written any more. Calls that were not written were not answered.
    #[error("the sandbox's journal cannot be written: {0}")]
    Write(String),
}

/// Replays the journal, serves until `shutdown` resolves. Returns only after open requests ended (at most 5 s).
///
/// # Errors
/// When the journal cannot be read or written, or the listener is of no use.
pub async fn serve(
    listener: TcpListener,
    config: Config,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), SandboxError> {
    let address = listener.local_addr().map_err(SandboxError::Listen)?.to_string();
    let (folder, sync) = (config.data_dir.clone(), config.journal_sync);
    let opened = tokio::task::spawn_blocking(move || Journal::open(&folder, sync)).await;
    let (journal, state) = opened.map_err(|error| SandboxError::Listen(error.into()))??;
    let (door, closings) = Door::new();
    let sandbox = Arc::new(Sandbox {
        courier: Courier::new(&config.webhooks),
        config: Arc::new(config),
        address,
        world: Mutex::new(World { state, under_way: UnderWay::default() }),
        journal,
        faults: Faults::default(),
        calls: Calls::default(),
        alarm: Notify::new(),
        door,
        tasks: TaskTracker::new(),
        stop: CancellationToken::new(),
    });
    sandbox.bring_in_endpoints()?;
    delivery::resume(&sandbox);
    sandbox.tasks.spawn(sandbox.stop.clone().run_until_cancelled_owned(later::run(Arc::clone(&sandbox))));
    let served = run(&sandbox, listener, closings, shutdown).await;
    sandbox.journal.close().await;
    served
}

async fn run(
    sandbox: &Arc<Sandbox>,
    listener: TcpListener,
    closings: Closings,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), SandboxError> {
    let stop = CancellationToken::new();
    let accepting = net::accept(listener, router(Arc::clone(sandbox)), closings, stop.clone(), DRAIN_SECONDS);
    let stopping = async {
        let failure = tokio::select! {
            () = shutdown => None,
            reason = sandbox.journal.failure() => Some(SandboxError::Write(reason)),
        };
        stop.cancel();
        if failure.is_some() {
            sandbox.stop.cancel();
        }
        failure.map_or(Ok(()), Err)
    };
    let mut accepting = std::pin::pin!(accepting);
    let ended = tokio::select! {
        // The listener failed for good: there is nothing to wait for.
        ended = accepting.as_mut() => ended,
        stopped = stopping => stopped.and(accepting.await),
    };
    // Calls whose clients are gone may still run; whatever has not been executed by now never is.
    sandbox.stop.cancel();
    sandbox.tasks.close();
    sandbox.tasks.wait().await;
    ended
}

/// Every address of the sandbox. The provider's API is behind the fallback: see `routes`.
fn router(sandbox: Arc<Sandbox>) -> Router {
    Router::new()
        .route("/", get(control::home))
        .route("/bank/{intent}", get(control::bank_page).post(call::handle))
        .route("/v1/payment_methods", options(call::preflight).fallback(call::handle))
        .route("/_sandbox/ledger", get(control::ledger))
        .route("/_sandbox/calls", get(control::calls))
        .route("/_sandbox/faults", get(control::list_faults).post(control::set_fault).delete(control::clear_faults))
        .route("/_sandbox/webhook_endpoints", post(control_webhooks::set_endpoint))
        .route("/_sandbox/webhook_endpoints/{id}/rotate", post(control_webhooks::rotate))
        .route("/_sandbox/deliveries", get(control_webhooks::deliveries))
        .route("/_sandbox/charges", post(control_money::charge))
        .route("/_sandbox/charges/bulk", post(control_money::bulk))
        .route("/_sandbox/refunds", post(control_money::refund))
        .route("/_sandbox/refunds/{id}", post(control_money::settle_refund))
        .route("/_sandbox/disputes", post(control_money::dispute))
        .route("/_sandbox/disputes/{id}", post(control_money::settle_dispute))
        .route("/_sandbox/payment_intents/{id}/expire", post(control_money::expire))
        .route("/_sandbox/events", post(control_webhooks::inject))
        .route("/_sandbox/events/{id}/deliver", post(control_webhooks::deliver))
        .route("/_sandbox/keys", delete(control::forget_keys))
        .route("/_sandbox/state", delete(control::erase))
        .fallback(call::handle)
        .method_not_allowed_fallback(call::handle)
        .layer(DefaultBodyLimit::max(MAX_CONTROL_BODY_BYTES))
        .with_state(sandbox)
}

/// Everything that a running sandbox has.
struct Sandbox {
    config: Arc<Config>,
    /// Where it listens, e.g. `127.0.0.1:3001`.
    address: String,
    world: Mutex<World>,
    journal: Journal,
    faults: Faults,
    calls: Calls,
    courier: Courier,
    /// Rings when something may be due earlier than was thought.
    alarm: Notify,
    door: Door,
    /// Calls that are being executed, whether or not their clients are still there.
    tasks: TaskTracker,
    /// Ends them.
    stop: CancellationToken,
}

/// What the provider knows, and what is under way. Its lock is held for a moment only, never while something waits.
struct World {
    state: State,
    under_way: UnderWay,
}

impl Sandbox {
    /// Makes the webhook endpoints of the settings.
    fn bring_in_endpoints(&self) -> Result<(), SandboxError> {
        let now_ms = clock::now_ms();
        let mut world = self.world();
        let mut change = Change::new(&mut world.state);
        let brought = webhooks::bring_in(&mut change, &self.config.webhooks.endpoints, now_ms / 1000);
        // Nobody waits for the line: the next start would write it again.
        let Written { .. } = Written::change(self, change, &Cause::own("settings", now_ms));
        brought.map_err(|refusal| SandboxError::Endpoint(refusal.message()))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes one call's changes as one line. The caller holds the world's lock, so that lines come in the order of changes.
    fn write(&self, call: &str, at: i64, put: Vec<Put>) -> u64 {
        self.journal.append(&Entry { at, call: call.to_owned(), put })
    }
}
