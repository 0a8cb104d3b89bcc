//! The client's half of the protocol, as a pure machine: what happened goes in, what to do comes out.
//!
//! Promises: one UUID for one checkout intent, stored before it is first sent, kept until the intent has *definitely* ended.
//! While a payment may be under way it never stops asking, sends nothing but the very same request, and that only after the
//! server said that it never received it. Knows no clock, no randomness but the given, no browser.

mod learning;
mod parts;
mod sending;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

pub use parts::{Effect, Event, Idle, Kind, Live, Over, Phase, Press, Seed};

use super::retry;
use crate::dto::{MoneyDto, OutcomeState, PayDto};

/// How often one press is sent again after the server proved that it never received it, or could not begin. Beyond this the
/// customer decides.
const RESENDS_MAX: u32 = 3;
/// When the page starts to say that the bank takes longer.
const LONGER_AFTER_MS: u32 = 4_000;
/// When the page starts to say that it may be closed (after [`LONGER_AFTER_MS`]).
const STILL_WAITING_AFTER_MS: u32 = 6_000;

/// How long a press waits at most for the outcome that the page is asking for.
const HOLD_MS: u32 = 1_000;

/// The machine.
#[derive(Clone, Debug)]
pub struct Machine {
    order: String,
    price: MoneyDto,
    intent: String,
    replaces: Option<String>,
    /// The intent has ended and its successor is being minted.
    retired: bool,
    /// The intent that the last outcome spoke of.
    about: Option<String>,
    kind: Kind,
    phase: Phase,
    online: bool,
    /// A press that waits until the page knows where the order stands.
    held: Option<Press>,
    email: String,
    /// The request of the running press, frozen: it is repeated as it is or not at all.
    sent: Option<PayDto>,
    /// The last answer was lost, so that nothing is known until an outcome is.
    lost: bool,
    resends: u32,
    asks: u32,
    paying: Option<u32>,
    asking: Option<u32>,
    /// The asking that news have overtaken: its answer may be older than they are.
    overtaken: Option<u32>,
    ask_timer: Option<u32>,
    send_timer: Option<u32>,
    stage_timer: Option<u32>,
    hold_timer: Option<u32>,
    last_tag: u32,
    random: u64,
    effects: Vec<Effect>,
}

impl Machine {
    /// The machine of a page as the server wrote it. The same on both sides.
    pub fn new(seed: &Seed) -> Self {
        let outcome = &seed.outcome;
        let sent_back = seed.refused.as_deref().map(|code| match sending::refused_by_provider(code) {
            faults if faults.is_empty() => Idle::NotSent,
            faults => Idle::Fields(faults),
        });
        let phase = match outcome.state {
            OutcomeState::Ready => Phase::Idle(sent_back.unwrap_or(Idle::Ready)),
            OutcomeState::Failed => match outcome.not_charged() {
                Some(proof) => Phase::Idle(sent_back.unwrap_or(Idle::Declined(proof))),
                None => Phase::Live(Live::Unknown { by: None }),
            },
            OutcomeState::Pending | OutcomeState::ActionRequired | OutcomeState::Unknown => {
                Phase::Live(learning::live(outcome, 2))
            }
            OutcomeState::Paid => Phase::Over(Over::AlreadyPaid),
            OutcomeState::Closed => Phase::Over(Over::Closed),
        };
        Self {
            order: seed.order.clone(),
            price: seed.price.clone(),
            intent: seed.intent.clone(),
            replaces: seed.replaces.clone(),
            retired: false,
            about: outcome.intent.clone(),
            kind: seed.kind,
            phase,
            online: true,
            held: None,
            email: String::new(),
            sent: None,
            lost: false,
            resends: 0,
            asks: 0,
            paying: None,
            asking: None,
            overtaken: None,
            ask_timer: None,
            send_timer: None,
            stage_timer: None,
            hold_timer: None,
            last_tag: 0,
            random: 0,
            effects: Vec::new(),
        }
    }

    /// Takes in what happened; gives what to do, in this order.
    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        match event {
            Event::Adopted { intent, random } => self.on_adopted(intent, random),
            Event::Submitted(press) => self.on_submitted(press),
            Event::TokenMade(method) => self.on_token(method),
            Event::TokenRefused(faults) => self.on_no_token(faults),
            Event::TokenLost => self.on_no_token(Vec::new()),
            Event::PayAnswered { tag, answer } if self.paying == Some(tag) => self.on_answer(answer),
            Event::PayFailed { tag, error } if self.paying == Some(tag) => self.on_pay_failed(error),
            Event::OutcomeAnswered { tag, outcome } if self.asking == Some(tag) => {
                self.asking = None;
                self.learn(&outcome);
                if self.overtaken == Some(tag) && matches!(self.phase, Phase::Live(_)) {
                    self.ask_now();
                }
            }
            Event::OutcomeFailed { tag, error } if self.asking == Some(tag) => self.on_ask_failed(&error),
            Event::PayAnswered { .. }
            | Event::PayFailed { .. }
            | Event::OutcomeAnswered { .. }
            | Event::OutcomeFailed { .. } => {}
            Event::TimeUp { tag } => self.on_time_up(tag),
            Event::WentOffline => self.on_offline(),
            Event::WentOnline => {
                self.online = true;
                if self.phase == Phase::Idle(Idle::Offline) {
                    self.phase = Phase::Idle(Idle::Ready);
                }
                self.ask_now();
            }
            Event::Woke => self.ask_now(),
            Event::News => {
                self.overtaken = self.asking;
                self.ask_now();
            }
            Event::StoredElsewhere(stored) => self.on_stored_elsewhere(stored),
            Event::Minted(minted) => self.on_minted(minted),
        }
        std::mem::take(&mut self.effects)
    }

    /// Where the page stands.
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Whether the server should tell when the payment moves: it takes longer than most do. What is told is only that it is time
    /// to ask, so the page that is told nothing asks all the same, later.
    pub const fn awaits_news(&self) -> bool {
        match &self.phase {
            Phase::Live(Live::Sending { stage }) => *stage > 0 || self.paying.is_none(),
            Phase::Live(Live::BankStep { .. } | Live::Unknown { .. } | Live::LostConnection) => true,
            Phase::Idle(_) | Phase::Tokenizing | Phase::Over(_) => false,
        }
    }

    /// What the page asks for, in money.
    pub const fn price(&self) -> &MoneyDto {
        &self.price
    }

    /// The order's token.
    pub fn order(&self) -> &str {
        &self.order
    }

    /// The UUID that the page holds for its next press.
    pub fn intent(&self) -> &str {
        &self.intent
    }

    /// The FAILED intent that the next press replaces.
    pub fn replaces(&self) -> Option<&str> {
        self.replaces.as_deref()
    }

    /// The intent that the page speaks of: `data-intent`.
    pub fn shown_intent(&self) -> &str {
        match self.phase {
            Phase::Idle(_) | Phase::Tokenizing => &self.intent,
            Phase::Live(_) if self.sent.is_some() => &self.intent,
            Phase::Live(_) | Phase::Over(_) => self.about.as_deref().unwrap_or(&self.intent),
        }
    }

    fn on_adopted(&mut self, intent: String, random: u64) {
        self.random ^= random;
        let differs = intent != self.intent;
        match self.phase {
            // A finished order needs no UUID.
            Phase::Over(_) => return self.effects.push(Effect::Forget),
            Phase::Idle(_) | Phase::Tokenizing | Phase::Live(_) => self.intent.clone_from(&intent),
        }
        if self.kind == Kind::Checkout {
            self.effects.push(Effect::Store(intent));
        }
        // The server wrote this page for its own UUID; what became of the stored one only an outcome can say.
        if differs || matches!(self.phase, Phase::Live(_)) {
            self.ask_now();
        }
    }

    fn on_offline(&mut self) {
        self.online = false;
        match self.phase {
            Phase::Idle(Idle::Ready) => self.phase = Phase::Idle(Idle::Offline),
            Phase::Live(Live::Sending { .. } | Live::Unknown { .. }) => self.phase = Phase::Live(Live::LostConnection),
            Phase::Idle(_)
            | Phase::Tokenizing
            | Phase::Live(Live::BankStep { .. } | Live::LostConnection)
            | Phase::Over(_) => {}
        }
    }

    /// Another tab minted the successor, or is the first to store one. The page follows, unless its own is under way.
    fn on_stored_elsewhere(&mut self, stored: Option<String>) {
        if let (Phase::Idle(_), false, Some(stored)) = (&self.phase, self.retired, stored)
            && Some(stored.as_str()) != self.replaces()
            && stored != self.intent
        {
            self.intent = stored;
            // An answer on its way speaks of the UUID that the page held before.
            self.asking = None;
        }
        self.ask_now();
    }

    fn on_minted(&mut self, minted: Option<String>) {
        if !self.retired {
            return;
        }
        let Some(minted) = minted else { return self.effects.push(Effect::Reload) };
        self.retired = false;
        self.intent.clone_from(&minted);
        self.effects.push(Effect::Store(minted));
        self.release();
    }

    fn on_time_up(&mut self, tag: u32) {
        if self.ask_timer == Some(tag) {
            self.ask_timer = None;
            self.ask_now();
        } else if self.send_timer == Some(tag) {
            self.send_timer = None;
            self.send();
        } else if self.stage_timer == Some(tag) {
            self.stage_timer = None;
            self.lose_patience();
        } else if self.hold_timer == Some(tag) {
            self.hold_timer = None;
            self.stop_holding();
        }
    }

    fn next_tag(&mut self) -> u32 {
        self.last_tag = self.last_tag.wrapping_add(1);
        self.last_tag
    }

    fn next_random(&mut self) -> u32 {
        retry::next_random(&mut self.random)
    }
}
