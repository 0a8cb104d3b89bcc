//! A provider that does as little as one can: it charges whatever is confirmed, after a while, and counts. The sandbox would do,
//! but it keeps a durable journal, and what it costs would be measured with the shop.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::HeaderMap,
    routing::{get, post},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::orders::{AMOUNT_MINOR, CURRENCY};

/// Longest wait for all confirms to have come: with the delay, less than the shop's patience.
const GATHER_MAX: Duration = Duration::from_secs(80);

/// Keys under which each payment intent was charged. More than one is a double charge.
#[derive(Default)]
struct Books {
    charges: Mutex<HashMap<String, HashMap<String, usize>>>,
    /// Payment intents that can no longer be charged.
    cancelled: Mutex<HashSet<String>>,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    delay: Duration,
    /// Gives way once so many confirms wait at the same time.
    gathered: watch::Sender<bool>,
    gather: usize,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Counts {
    /// Charges, one for each payment intent and key.
    pub charges: usize,
    /// Payment intents with more than one.
    pub doubled: usize,
    /// Requests to confirm, also repeats under the same key.
    pub confirms: usize,
    /// Most confirms that waited at the same time.
    pub most_in_flight: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Open,
    Succeeded,
    Cancelled,
}

impl Books {
    fn is_cancelled(&self, id: &str) -> bool {
        self.cancelled.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    fn status(&self, id: &str) -> Status {
        if self.charges.lock().unwrap_or_else(PoisonError::into_inner).contains_key(id) {
            Status::Succeeded
        } else if self.is_cancelled(id) {
            Status::Cancelled
        } else {
            Status::Open
        }
    }
}

pub async fn serve(addr: SocketAddr, delay: Duration, gather: usize) -> anyhow::Result<()> {
    let books = Arc::new(Books { delay, gather, ..Books::default() });
    let router = Router::new()
        .route("/v1/payment_intents/{id}/confirm", post(confirm))
        .route("/v1/payment_intents/{id}", get(probe))
        .route("/v1/payment_intents/{id}/cancel", post(cancel))
        .route("/counts", get(counts))
        .with_state(books);
    let listener = tokio::net::TcpSocket::new_v4()?;
    listener.set_reuseaddr(true)?;
    listener.bind(addr)?;
    axum::serve(listener.listen(16_384)?, router).await?;
    Ok(())
}

async fn confirm(State(books): State<Arc<Books>>, Path(id): Path<String>, headers: HeaderMap) -> Json<Value> {
    let waiting = books.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
    books.most_in_flight.fetch_max(waiting, Ordering::Relaxed);
    if waiting >= books.gather {
        books.gathered.send_replace(true);
    }
    if !books.delay.is_zero() {
        // Not for ever, should one never come: then the report tells of fewer at once.
        let mut gathered = books.gathered.subscribe();
        let _ = tokio::time::timeout(GATHER_MAX, gathered.wait_for(|all| *all)).await;
        tokio::time::sleep(books.delay).await;
    }
    books.in_flight.fetch_sub(1, Ordering::Relaxed);
    let key = headers.get("idempotency-key").map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
    let mut charges = books.charges.lock().unwrap_or_else(PoisonError::into_inner);
    if books.is_cancelled(&id) {
        return Json(payment_intent(&id, Status::Cancelled));
    }
    *charges.entry(id.clone()).or_default().entry(key.unwrap_or_default()).or_default() += 1;
    Json(payment_intent(&id, Status::Succeeded))
}

async fn probe(State(books): State<Arc<Books>>, Path(id): Path<String>) -> Json<Value> {
    Json(payment_intent(&id, books.status(&id)))
}

/// What the shop does at the deadline of an outcome that it does not know.
async fn cancel(State(books): State<Arc<Books>>, Path(id): Path<String>) -> Json<Value> {
    let charges = books.charges.lock().unwrap_or_else(PoisonError::into_inner);
    if !charges.contains_key(&id) {
        books.cancelled.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
    }
    drop(charges);
    Json(payment_intent(&id, books.status(&id)))
}

async fn counts(State(books): State<Arc<Books>>) -> Json<Counts> {
    let charges = books.charges.lock().unwrap_or_else(PoisonError::into_inner);
    Json(Counts {
        charges: charges.values().map(HashMap::len).sum(),
        doubled: charges.values().filter(|keys| keys.len() > 1).count(),
        confirms: charges.values().flat_map(HashMap::values).sum(),
        most_in_flight: books.most_in_flight.load(Ordering::Relaxed),
    })
}

fn payment_intent(id: &str, status: Status) -> Value {
    let charged = status == Status::Succeeded;
    let word = match status {
        Status::Open => "requires_payment_method",
        Status::Succeeded => "succeeded",
        Status::Cancelled => "canceled",
    };
    let currency = CURRENCY.to_lowercase();
    let charge = charged.then(|| {
        json!({
            "id": format!("ch_{id}"), "object": "charge", "amount": AMOUNT_MINOR, "amount_captured": AMOUNT_MINOR,
            "currency": currency, "created": 1_767_225_600, "status": "succeeded", "payment_intent": id,
        })
    });
    json!({
        "id": id, "object": "payment_intent", "amount": AMOUNT_MINOR, "currency": currency,
        "amount_received": if charged { AMOUNT_MINOR } else { 0 },
        "status": word, "latest_charge": charge,
    })
}
