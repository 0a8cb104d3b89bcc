//! The server's half of the protocol, as far as the browser can tell.

use std::collections::HashMap;

use crate::{
    dto::{AnswerDto, AnswerState, OutcomeDto, OutcomeState, PayDto},
    error::CheckoutError,
    intent::machine::tests,
};

/// What the provider decides.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    Approve,
    Decline,
    Unknown,
    BankStep,
}

/// Its intents, and which is the newest.
#[derive(Default)]
pub struct Server {
    pub intents: HashMap<String, (PayDto, OutcomeState)>,
    pub newest: Option<String>,
    pub offered: u64,
    pub not_sent: bool,
}

impl Server {
    pub fn live(&self) -> Option<&str> {
        self.newest
            .as_deref()
            .filter(|newest| self.intents.get(*newest).is_some_and(|(_, state)| state.is_unresolved()))
    }

    pub fn state(&self) -> OutcomeState {
        self.newest
            .as_ref()
            .and_then(|newest| self.intents.get(newest))
            .map_or(OutcomeState::Ready, |(_, state)| *state)
    }

    pub fn outcome(&self, asked: &str) -> OutcomeDto {
        tests::outcome(self.state(), self.newest.as_deref(), self.intents.contains_key(asked))
    }

    fn answer(&self, intent: &str) -> AnswerDto {
        let state = match self.intents[intent].1 {
            OutcomeState::Paid => AnswerState::Succeeded,
            OutcomeState::Failed => AnswerState::Failed,
            OutcomeState::Ready
            | OutcomeState::Pending
            | OutcomeState::ActionRequired
            | OutcomeState::Unknown
            | OutcomeState::Closed => AnswerState::Pending,
        };
        tests::answer(intent, state)
    }

    pub fn pay(&mut self, pay: PayDto) -> Result<AnswerDto, CheckoutError> {
        if let Some((first, _)) = self.intents.get(&pay.intent) {
            return if *first == pay { Ok(self.answer(&pay.intent)) } else { Err(CheckoutError::IntentReused) };
        }
        let taken = self.newest.clone().filter(|_| self.live().is_some() || self.state() == OutcomeState::Paid);
        if let Some(intent) = taken {
            return Err(CheckoutError::OrderTaken { intent });
        }
        let replaced_lives = pay
            .replaces
            .as_ref()
            .is_some_and(|replaced| self.intents.get(replaced).is_none_or(|(_, state)| *state != OutcomeState::Failed));
        if replaced_lives {
            return Err(CheckoutError::ReplacesUnfinished);
        }
        if std::mem::take(&mut self.not_sent) {
            return Err(CheckoutError::NotSent);
        }
        self.newest = Some(pay.intent.clone());
        let intent = pay.intent.clone();
        self.intents.insert(intent.clone(), (pay, OutcomeState::Pending));
        Ok(self.answer(&intent))
    }

    pub fn decide(&mut self, fate: Fate) {
        let Some(live) = self.live().map(ToOwned::to_owned) else { return };
        if let Some((_, state)) = self.intents.get_mut(&live) {
            *state = match fate {
                Fate::Approve => OutcomeState::Paid,
                Fate::Decline => OutcomeState::Failed,
                Fate::Unknown => OutcomeState::Unknown,
                Fate::BankStep => OutcomeState::ActionRequired,
            };
        }
    }
}
