//! Everything the provider knows, as plain records. Pure: records go in through `apply` and nowhere else, so that reading
//! the journal again gives the same state. It holds no card number and no security code, because no record has room for one.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

/// Where a payment intent stands. It can become `Succeeded` only once, and nothing leaves `Succeeded` or `Canceled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntentStatus {
    RequiresPaymentMethod,
    RequiresAction,
    Succeeded,
    Canceled,
}

impl IntentStatus {
    pub fn name(self) -> &'static str {
        match self {
            Self::RequiresPaymentMethod => "requires_payment_method",
            Self::RequiresAction => "requires_action",
            Self::Succeeded => "succeeded",
            Self::Canceled => "canceled",
        }
    }

    /// Whether money can still move.
    pub fn is_open(self) -> bool {
        match self {
            Self::RequiresPaymentMethod | Self::RequiresAction => true,
            Self::Succeeded | Self::Canceled => false,
        }
    }
}

/// One payment that was asked for; at most one charge of it ever succeeds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Intent {
    pub id: String,
    pub amount: i64,
    pub currency: String,
    pub status: IntentStatus,
    pub client_secret: String,
    pub description: Option<String>,
    pub receipt_email: Option<String>,
    pub metadata: BTreeMap<String, String>,
    pub payment_method: Option<String>,
    pub latest_charge: Option<String>,
    pub last_error: Option<CardError>,
    /// The newest visit to the bank, open or over.
    pub step: Option<BankStep>,
    pub created: i64,
    pub canceled_at: Option<i64>,
    pub cancellation_reason: Option<String>,
}

/// One visit to the bank. `number` binds a bank page to its attempt: an older page decides nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BankStep {
    pub number: u32,
    pub return_url: Option<String>,
    /// Key of the confirm call that began the visit; the charge belongs to it.
    pub idempotency_key: Option<String>,
    /// `None` while the customer has not decided; else whether the payment succeeded.
    pub decided: Option<bool>,
}

/// Why a card was not charged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardError {
    pub code: String,
    pub decline_code: Option<String>,
    pub message: String,
    pub param: Option<String>,
    pub charge: Option<String>,
    pub payment_method: Option<String>,
}

/// A card without its secrets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Method {
    pub id: String,
    pub brand: String,
    pub last4: String,
    pub exp_month: u8,
    pub exp_year: i32,
    pub name: Option<String>,
    pub email: Option<String>,
    pub created: i64,
    /// What the card does when it is charged.
    pub conduct: Conduct,
}

/// How a test card behaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conduct {
    /// Whether the bank wants to see the customer first.
    pub bank_step: bool,
    /// The decline, by the name in the table of test cards; `None` pays.
    pub decline: Option<String>,
}

/// One try to move money; only `succeeded` ones moved any.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Charge {
    pub id: String,
    pub amount: i64,
    pub amount_refunded: i64,
    pub currency: String,
    pub payment_intent: String,
    pub payment_method: Method,
    pub description: Option<String>,
    pub metadata: BTreeMap<String, String>,
    pub idempotency_key: Option<String>,
    pub error: Option<CardError>,
    pub created: i64,
}

impl Charge {
    pub fn succeeded(&self) -> bool {
        self.error.is_none()
    }
}

/// Money that went back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refund {
    pub id: String,
    pub charge: String,
    pub payment_intent: String,
    pub amount: i64,
    pub currency: String,
    pub reason: Option<String>,
    pub metadata: BTreeMap<String, String>,
    pub idempotency_key: Option<String>,
    pub created: i64,
}

/// What a plain card form left: the payment method, or the fault, and what the shop may put into its form again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    pub id: String,
    pub payment_method: Option<String>,
    pub name: Option<String>,
    pub email: Option<String>,
    pub error_code: Option<String>,
    pub error_param: Option<String>,
    pub created: i64,
}

/// The remembered answer of an idempotency key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyRecord {
    pub key: String,
    pub endpoint: String,
    /// SHA-256 of the canonical parameters, without card secrets.
    pub fingerprint: String,
    pub status: u16,
    pub body: String,
    pub request_id: String,
    pub at_ms: i64,
}

/// One record as the journal holds it; a record replaces the older one with its id.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Put {
    Intent(Intent),
    Charge(Charge),
    Refund(Refund),
    Method(Method),
    Session(Session),
    Key(KeyRecord),
    KeysForgotten { until_ms: i64 },
}

/// All records.
#[derive(Debug, Default)]
pub struct State {
    pub intents: Table<Intent>,
    pub charges: Table<Charge>,
    pub refunds: Table<Refund>,
    pub methods: Table<Method>,
    pub sessions: Table<Session>,
    pub keys: Keys,
}

impl State {
    pub fn apply(&mut self, put: Put) {
        match put {
            Put::Intent(row) => self.intents.put(row),
            Put::Charge(row) => self.charges.put(row),
            Put::Refund(row) => self.refunds.put(row),
            Put::Method(row) => self.methods.put(row),
            Put::Session(row) => self.sessions.put(row),
            Put::Key(row) => self.keys.put(row),
            Put::KeysForgotten { until_ms } => self.keys.forget_until(until_ms),
        }
    }
}

/// The changes of one call: applied at once, written to the journal as one line, so that a crash keeps all or none.
pub struct Change<'a> {
    pub state: &'a mut State,
    pub puts: Vec<Put>,
}

impl<'a> Change<'a> {
    pub fn new(state: &'a mut State) -> Self {
        Self { state, puts: Vec::new() }
    }

    pub fn put(&mut self, put: Put) {
        self.state.apply(put.clone());
        self.puts.push(put);
    }
}

/// A record with an id.
pub trait Row {
    fn id(&self) -> &str;
    fn created(&self) -> i64;
}

/// Records by id, in the order in which they first came.
#[derive(Debug)]
pub struct Table<T> {
    rows: Vec<T>,
    places: HashMap<String, usize>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), places: HashMap::new() }
    }
}

impl<T: Row> Table<T> {
    pub fn get(&self, id: &str) -> Option<&T> {
        self.rows.get(*self.places.get(id)?)
    }

    pub fn newest_first(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.rows.iter().rev()
    }

    pub fn oldest_first(&self) -> impl Iterator<Item = &T> {
        self.rows.iter()
    }

    /// The records that came before the given one, newest first.
    pub fn older_than(&self, id: &str) -> Option<impl Iterator<Item = &T>> {
        Some(self.rows.get(..*self.places.get(id)?)?.iter().rev())
    }

    /// The records that came after the given one, oldest first.
    pub fn newer_than(&self, id: &str) -> Option<impl Iterator<Item = &T>> {
        Some(self.rows.get(self.places.get(id)? + 1..)?.iter())
    }

    fn put(&mut self, row: T) {
        if let Some(old) = self.places.get(row.id()).and_then(|&place| self.rows.get_mut(place)) {
            *old = row;
        } else {
            self.places.insert(row.id().to_owned(), self.rows.len());
            self.rows.push(row);
        }
    }
}

macro_rules! rows {
    ($($record:ty),*) => {$(
        impl Row for $record {
            fn id(&self) -> &str {
                &self.id
            }

            fn created(&self) -> i64 {
                self.created
            }
        }
    )*};
}

rows!(Intent, Charge, Refund, Method, Session);

/// Idempotency keys, oldest first, so that forgetting is cheap.
#[derive(Debug, Default)]
pub struct Keys {
    by_key: HashMap<String, KeyRecord>,
    oldest_first: VecDeque<(i64, String)>,
}

impl Keys {
    pub fn get(&self, key: &str) -> Option<&KeyRecord> {
        self.by_key.get(key)
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Forgets every key that was remembered at or before the instant.
    pub fn forget_until(&mut self, at_ms: i64) {
        while let Some((remembered_ms, key)) = self.oldest_first.front() {
            if *remembered_ms > at_ms {
                break;
            }
            // A key that was forgotten and used again has a younger record, which stays.
            if self.by_key.get(key).is_some_and(|record| record.at_ms == *remembered_ms) {
                self.by_key.remove(key);
            }
            self.oldest_first.pop_front();
        }
    }

    fn put(&mut self, record: KeyRecord) {
        self.oldest_first.push_back((record.at_ms, record.key.clone()));
        self.by_key.insert(record.key.clone(), record);
    }
}
