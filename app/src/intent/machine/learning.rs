//! Asking for the outcome, and what follows from it.

use super::{Effect, Idle, Kind, Live, Machine, Over, Phase, retry};
use crate::{
    dto::{NotCharged, OutcomeDto, OutcomeState},
    error::{Advice, CheckoutError},
};

impl Machine {
    /// Asks, unless an answer is already on its way or there is nothing to learn.
    pub(super) fn ask_now(&mut self) {
        match self.phase {
            Phase::Idle(_) if self.retired => return,
            Phase::Tokenizing | Phase::Over(_) => return,
            Phase::Idle(_) | Phase::Live(_) => {}
        }
        if self.asking.is_some() {
            return;
        }
        self.ask_timer = None;
        let tag = self.next_tag();
        self.asking = Some(tag);
        self.effects.push(Effect::Ask { tag, intent: self.intent.clone() });
    }

    /// Asks after a while that grows with every asking.
    pub(super) fn ask_later(&mut self, retry_after_seconds: Option<u32>) {
        if self.asking.is_some() {
            return;
        }
        let random = self.next_random();
        let ms = retry::delay_ms(self.asks, random, retry_after_seconds);
        self.asks = self.asks.saturating_add(1);
        let tag = self.next_tag();
        self.ask_timer = Some(tag);
        self.effects.push(Effect::Wait { tag, ms });
    }

    pub(super) fn on_ask_failed(&mut self, error: &CheckoutError) {
        self.asking = None;
        if error.advice() == Advice::GiveUp {
            return self.effects.push(Effect::Reload);
        }
        match self.phase {
            // The page only wanted to be sure. The server is sure anyway.
            Phase::Idle(_) => self.release(),
            Phase::Live(ref live) => {
                let in_doubt = self.lost || *live == Live::LostConnection;
                match (self.online, in_doubt, live) {
                    (false, _, Live::Sending { .. } | Live::Unknown { .. }) => {
                        self.phase = Phase::Live(Live::LostConnection);
                    }
                    (true, true, _) => self.phase = Phase::Live(Live::Unknown { by: None }),
                    (false, ..) | (true, false, _) => {}
                }
                self.ask_later(error.retry_after_seconds());
            }
            Phase::Tokenizing | Phase::Over(_) => {}
        }
    }

    /// Takes in what the server knows of the order.
    pub(super) fn learn(&mut self, outcome: &OutcomeDto) {
        if let (Kind::Outcome, Phase::Idle(_)) = (self.kind, &self.phase) {
            // The server wrote "not paid"; anything else it can say better itself.
            if !matches!(outcome.state, OutcomeState::Ready | OutcomeState::Failed) {
                self.effects.push(Effect::Reload);
            }
            return;
        }
        self.about.clone_from(&outcome.intent);
        match (outcome.state, &self.phase) {
            (_, Phase::Tokenizing | Phase::Over(_)) => {}
            (OutcomeState::Paid, _) => self.paid(outcome.intent.clone()),
            (OutcomeState::Closed, _) => self.closed(),
            (OutcomeState::Pending | OutcomeState::ActionRequired | OutcomeState::Unknown, _) => {
                self.lost = false;
                self.held = None;
                let Live::Sending { stage } = self.still_sending() else { return };
                self.phase = Phase::Live(live(outcome, stage));
                self.ask_later(None);
            }
            // A no without its reason proves nothing.
            (OutcomeState::Failed, _) if outcome.not_charged().is_none() => self.ask_later(None),
            (OutcomeState::Ready | OutcomeState::Failed, Phase::Idle(_)) => self.learn_idle(outcome),
            (OutcomeState::Ready | OutcomeState::Failed, Phase::Live(_)) => self.learn_live(outcome),
        }
    }

    /// Nothing is under way, as the page thought. Its UUID may have been used up by another tab, though.
    fn learn_idle(&mut self, outcome: &OutcomeDto) {
        if let Some(proof) = outcome.not_charged() {
            if outcome.received {
                // The press that waits for this answer is meant for the successor.
                let held = self.held.take();
                self.declined(proof, outcome.intent.clone());
                self.held = held;
                return;
            }
            if outcome.intent.is_some() {
                self.replaces.clone_from(&outcome.intent);
            }
        }
        self.release();
    }

    /// Nothing is under way, though the page thought so.
    fn learn_live(&mut self, outcome: &OutcomeDto) {
        match (outcome.not_charged(), outcome.received, self.sent.is_some()) {
            (Some(proof), true, _) => self.declined(proof, outcome.intent.clone()),
            // The request may be on its way still, or this page's waiting for its moment.
            (_, false, true) if self.paying.is_some() => self.ask_later(None),
            (_, false, true) if self.send_timer.is_some() => {}
            // Proven: it never arrived. The same request may go again.
            (_, false, true) => {
                self.lost = false;
                self.send_again(None);
            }
            // Somebody else's payment ended; this page's UUID was never sent.
            (Some(proof), false, false) => {
                self.end_of_press();
                self.replaces.clone_from(&outcome.intent);
                self.phase = Phase::Idle(Idle::Declined(proof));
                self.show_by_server();
            }
            (None, false, false) => {
                self.end_of_press();
                self.phase = Phase::Idle(Idle::Ready);
                self.show_by_server();
            }
            // Received, and yet nothing: the answer overtook the server's own writing. It will say more.
            (None, true, _) => self.ask_later(None),
        }
    }

    pub(super) fn paid(&mut self, intent: Option<String>) {
        let from_here = self.sent.is_some() || matches!(self.phase, Phase::Live(_));
        self.end_of_press();
        self.about = intent;
        self.phase = Phase::Over(if from_here { Over::Paid } else { Over::AlreadyPaid });
        self.effects.push(Effect::Forget);
        if self.kind == Kind::Outcome {
            self.effects.push(Effect::Reload);
        } else if from_here {
            self.effects.push(Effect::GoToOrder);
        }
    }

    fn closed(&mut self) {
        self.end_of_press();
        self.phase = Phase::Over(Over::Closed);
        self.effects.push(Effect::Forget);
        self.show_by_server();
    }

    /// The page's intent is FAILED: its UUID is retired and the next one is made, here and now.
    pub(super) fn declined(&mut self, proof: NotCharged, failed: Option<String>) {
        self.end_of_press();
        self.replaces = failed.or_else(|| Some(self.intent.clone()));
        self.phase = Phase::Idle(Idle::Declined(proof));
        if self.kind == Kind::Checkout {
            self.retire();
        }
        self.show_by_server();
    }

    pub(super) fn retire(&mut self) {
        self.retired = true;
        self.effects.push(Effect::Mint { retired: self.intent.clone() });
    }

    fn show_by_server(&mut self) {
        if self.kind == Kind::Outcome {
            self.effects.push(Effect::Reload);
        }
    }
}

/// How an unresolved outcome looks on the page.
pub(super) fn live(outcome: &OutcomeDto, stage: u8) -> Live {
    match (outcome.state, &outcome.continue_url) {
        (OutcomeState::ActionRequired, Some(url)) if leads_on(url) => Live::BankStep { url: url.clone() },
        (OutcomeState::Unknown, _) => {
            Live::Unknown { by: outcome.decide_by.as_ref().map(|moment| moment.display.clone()) }
        }
        _ => Live::Sending { stage },
    }
}

/// Whether the address is one that a link may lead to.
pub(super) fn leads_on(url: &str) -> bool {
    ["https://", "http://", "/"].iter().any(|start| url.starts_with(start))
}
