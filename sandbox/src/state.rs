//! Everything the provider knows. Pure: records go in through `apply` and nowhere else, so that reading the journal again gives
//! the same state.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bulk::Bulk;
use crate::events::{self, Cause, Happening};
use crate::records::{Charge, Dispute, Endpoint, Event, Intent, IntentStatus, KeyRecord, Method, Refund, Session};
use crate::table::Table;

/// One record as the journal holds it; a record replaces the older one with its id.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Put {
    Intent(Intent),
    Charge(Charge),
    Refund(Refund),
    Dispute(Dispute),
    Method(Method),
    Session(Session),
    Key(KeyRecord),
    KeysForgotten {
        until_ms: i64,
    },
    Event(Event),
    /// An event needs not be sent to an endpoint any more: it arrived, or nobody tries again.
    Settled {
        event: String,
        endpoint: String,
    },
    Endpoint(Endpoint),
    EndpointGone {
        id: String,
    },
    Bulk(Bulk),
}

/// All records.
#[derive(Debug, Default)]
pub struct State {
    pub intents: Table<Intent>,
    pub charges: Table<Charge>,
    pub refunds: Table<Refund>,
    pub disputes: Table<Dispute>,
    pub methods: Table<Method>,
    pub sessions: Table<Session>,
    pub events: Table<Event>,
    pub endpoints: Table<Endpoint>,
    pub keys: Keys,
    /// The endpoints that an event has not reached yet.
    pub unsettled: HashMap<String, Vec<String>>,
    /// What happens by itself: when, and to which object.
    pub due: BTreeSet<(i64, String)>,
    /// The charges of each payment intent, oldest first, but for those of bulks.
    charges_of: HashMap<String, Vec<String>>,
}

impl State {
    pub fn apply(&mut self, put: Put) {
        match put {
            Put::Intent(row) => {
                let old = self.intents.row(&row.id).and_then(due_of_intent);
                self.plan(&row.id, old, due_of_intent(&row));
                self.intents.put(row);
            }
            Put::Charge(row) => {
                let of_intent = self.charges_of.entry(row.payment_intent.clone()).or_default();
                if !of_intent.contains(&row.id) {
                    of_intent.push(row.id.clone());
                }
                self.charges.put(row);
            }
            Put::Refund(row) => {
                let due = |refund: &Refund| refund.later.map(|later| later.at_ms);
                let old = self.refunds.row(&row.id).and_then(due);
                self.plan(&row.id, old, due(&row));
                self.refunds.put(row);
            }
            Put::Dispute(row) => self.disputes.put(row),
            Put::Method(row) => self.methods.put(row),
            Put::Session(row) => self.sessions.put(row),
            Put::Key(row) => self.keys.put(row),
            Put::KeysForgotten { until_ms } => self.keys.forget_until(until_ms),
            Put::Event(row) => {
                if !row.endpoints.is_empty() {
                    self.unsettled.insert(row.id.clone(), row.endpoints.clone());
                }
                self.events.put(row);
            }
            Put::Settled { event, endpoint } => {
                if let Some(endpoints) = self.unsettled.get_mut(&event) {
                    endpoints.retain(|waiting| *waiting != endpoint);
                    if endpoints.is_empty() {
                        self.unsettled.remove(&event);
                    }
                }
            }
            Put::Endpoint(row) => self.endpoints.put(row),
            Put::EndpointGone { id } => self.endpoints.remove(&id),
            Put::Bulk(bulk) => {
                let bulk = Arc::new(bulk);
                self.intents.put_bulk(&bulk);
                self.charges.put_bulk(&bulk);
            }
        }
    }

    /// The charges of a payment intent, oldest first.
    pub fn charges_of<'a>(&'a self, intent: &'a Intent) -> impl Iterator<Item = &'a str> {
        let known = self.charges_of.get(&intent.id).map(Vec::as_slice).unwrap_or_default();
        let of_bulk = intent.latest_charge.as_deref().filter(|_| known.is_empty());
        known.iter().map(String::as_str).chain(of_bulk)
    }

    fn plan(&mut self, id: &str, old: Option<i64>, new: Option<i64>) {
        if let Some(at_ms) = old {
            self.due.remove(&(at_ms, id.to_owned()));
        }
        if let Some(at_ms) = new {
            self.due.insert((at_ms, id.to_owned()));
        }
    }
}

fn due_of_intent(intent: &Intent) -> Option<i64> {
    let step = intent.step.as_ref().filter(|_| intent.status == IntentStatus::RequiresAction)?;
    step.expires_ms.filter(|_| step.decided.is_none())
}

/// The changes of one call: applied at once, written to the journal as one line, so that a crash keeps all or none. What
/// happened is found by comparing old and new records, so that no call can forget to tell.
pub struct Change<'a> {
    pub state: &'a mut State,
    puts: Vec<Put>,
    happenings: Vec<Happening>,
    /// Events that no change of a record tells.
    others: Vec<Event>,
    is_silent: bool,
}

impl<'a> Change<'a> {
    pub fn new(state: &'a mut State) -> Self {
        Self { state, puts: Vec::new(), happenings: Vec::new(), others: Vec::new(), is_silent: false }
    }

    pub fn put(&mut self, put: Put) {
        if !self.is_silent {
            self.happenings.extend(events::of(self.state, &put));
        }
        self.state.apply(put.clone());
        self.puts.push(put);
    }

    /// Leaves the events out, for what only a look at the records is to find.
    pub fn be_silent(&mut self) {
        self.is_silent = true;
    }

    /// Adds an event that no change of a record tells.
    pub fn tell(&mut self, event: Event) {
        self.others.push(event);
    }

    pub fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.others.is_empty()
    }

    /// All records that go into the line, and the events among them.
    pub fn finish(mut self, cause: &Cause) -> (Vec<Put>, Vec<Arc<Event>>) {
        let mut told = Vec::new();
        let state = &*self.state;
        let happened = std::mem::take(&mut self.happenings).into_iter();
        let events: Vec<Event> =
            happened.map(|happening| events::event(state, happening, cause)).chain(self.others).collect();
        for event in events {
            self.state.apply(Put::Event(event.clone()));
            told.push(Arc::new(event.clone()));
            self.puts.push(Put::Event(event));
        }
        (self.puts, told)
    }
}

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
