//! From the press to the answer of Pay.

use super::{
    Effect, Event, HOLD_MS, Idle, LONGER_AFTER_MS, Live, Machine, Phase, Press, RESENDS_MAX, STILL_WAITING_AFTER_MS,
    learning, retry,
};
use crate::{
    dto::{AnswerDto, AnswerState, PayDto},
    error::{Advice, CheckoutError},
    fields::{Fault, Field, Problem},
};

impl Machine {
    pub(super) fn on_submitted(&mut self, press: Press) {
        match self.phase {
            // Where the order stands is being asked, or the next UUID is being made: the press waits for that, then counts.
            Phase::Idle(_) if self.retired || self.asking.is_some() => self.hold(press),
            Phase::Idle(_) => self.start(press),
            Phase::Tokenizing | Phase::Live(_) => self.effects.push(Effect::Repeat),
            Phase::Over(_) => {}
        }
    }

    fn hold(&mut self, press: Press) {
        self.held = Some(press);
        let tag = self.next_tag();
        self.hold_timer = Some(tag);
        self.effects.push(Effect::Wait { tag, ms: HOLD_MS });
    }

    /// No answer came in time. The press counts: the server knows a used UUID, whatever this page knows.
    pub(super) fn stop_holding(&mut self) {
        if matches!(self.phase, Phase::Idle(_)) && self.held.is_some() {
            self.asking = None;
            self.release();
        }
    }

    /// Lets the press through that waited.
    pub(super) fn release(&mut self) {
        if self.retired || self.asking.is_some() || !matches!(self.phase, Phase::Idle(_)) {
            return;
        }
        if let Some(press) = self.held.take() {
            self.start(press);
        }
    }

    fn start(&mut self, press: Press) {
        if !press.faults.is_empty() {
            self.phase = Phase::Idle(Idle::Fields(press.faults));
        } else if !self.online {
            self.phase = Phase::Idle(Idle::Offline);
            self.effects.push(Effect::Repeat);
        } else {
            self.email = press.email;
            self.resends = 0;
            self.lost = false;
            self.phase = Phase::Tokenizing;
            self.effects.push(Effect::Store(self.intent.clone()));
            self.effects.push(Effect::Tokenize);
        }
    }

    pub(super) fn on_token(&mut self, payment_method: String) {
        if self.phase != Phase::Tokenizing {
            return;
        }
        self.sent = Some(PayDto {
            order: self.order.clone(),
            intent: self.intent.clone(),
            replaces: self.replaces.clone(),
            payment_method,
            email: self.email.clone(),
            amount: self.price.minor,
            currency: self.price.currency.clone(),
        });
        self.send();
    }

    /// A card without a token was sent nowhere.
    pub(super) fn on_no_token(&mut self, faults: Vec<Fault>) {
        if self.phase != Phase::Tokenizing {
            return;
        }
        self.phase = Phase::Idle(match (faults.is_empty(), self.online) {
            (false, _) => Idle::Fields(faults),
            (true, true) => Idle::NotSent,
            (true, false) => Idle::Offline,
        });
    }

    /// Sends the frozen request, for the first time or as it was.
    pub(super) fn send(&mut self) {
        let Some(pay) = self.sent.clone() else { return };
        if self.paying.is_some() {
            return;
        }
        if !matches!(self.phase, Phase::Live(Live::Sending { .. })) {
            self.phase = Phase::Live(Live::Sending { stage: 0 });
            self.start_ladder(LONGER_AFTER_MS);
        }
        let tag = self.next_tag();
        self.paying = Some(tag);
        self.effects.push(Effect::Pay { tag, pay });
    }

    /// Sends the frozen request again, which nobody received, after a while that grows.
    pub(super) fn send_again(&mut self, retry_after_seconds: Option<u32>) {
        if self.resends >= RESENDS_MAX {
            return self.not_sent();
        }
        let random = self.next_random();
        let ms = retry::delay_ms(self.resends, random, retry_after_seconds);
        self.resends += 1;
        let tag = self.next_tag();
        self.send_timer = Some(tag);
        self.effects.push(Effect::Wait { tag, ms });
    }

    pub(super) fn on_answer(&mut self, answer: AnswerDto) {
        self.paying = None;
        if answer.intent != self.intent {
            // An answer about something else is no answer.
            return self.on_lost_answer();
        }
        self.lost = false;
        match answer.state {
            AnswerState::Succeeded => self.paid(Some(answer.intent)),
            AnswerState::Failed => match answer.not_charged() {
                Some(proof) => self.declined(proof, Some(answer.intent)),
                None => self.on_lost_answer(),
            },
            AnswerState::Pending => {
                self.phase = Phase::Live(match (answer.detail.as_deref(), answer.continue_url) {
                    (Some("action_required"), Some(url)) if learning::leads_on(&url) => Live::BankStep { url },
                    (Some("unknown"), _) => Live::Unknown { by: None },
                    _ => self.still_sending(),
                });
                self.ask_later(None);
            }
        }
    }

    pub(super) fn on_pay_failed(&mut self, error: CheckoutError) {
        self.paying = None;
        match error.advice() {
            Advice::Ask if error == CheckoutError::LostAnswer => self.on_lost_answer(),
            // The server knows the truth already, or will in a moment. Not an error to show.
            Advice::Ask => self.ask_later(error.retry_after_seconds()),
            // Nothing was begun by *this* call. After a lost one, only an outcome tells.
            Advice::RetrySameIntent if self.lost => self.ask_later(error.retry_after_seconds()),
            Advice::RetrySameIntent => self.send_again(error.retry_after_seconds()),
            Advice::Fix => self.on_refused(error),
            Advice::GiveUp => self.effects.push(Effect::Reload),
        }
    }

    fn on_lost_answer(&mut self) {
        self.lost = true;
        if !self.online {
            self.phase = Phase::Live(Live::LostConnection);
        }
        self.asks = 0;
        self.ask_later(None);
    }

    /// The request was refused before anything was reserved.
    fn on_refused(&mut self, error: CheckoutError) {
        self.end_of_press();
        match error {
            CheckoutError::PriceChanged { now, .. } => {
                let was = std::mem::replace(&mut self.price, now);
                self.phase = Phase::Idle(Idle::PriceChanged { was });
            }
            CheckoutError::InvalidField { field, problem } if Field::of_id(&field).is_some() => {
                let faults = Field::of_id(&field)
                    .map(|field| Fault { field, problem: Problem { sentence: problem, unfinished: false } })
                    .into_iter()
                    .collect();
                self.phase = Phase::Idle(Idle::Fields(faults));
            }
            // A UUID that the server cannot read never was an intent.
            CheckoutError::InvalidIntent => {
                self.phase = Phase::Idle(Idle::NotSent);
                self.retire();
            }
            CheckoutError::InvalidField { .. }
            | CheckoutError::MalformedRequest
            | CheckoutError::TooLarge
            | CheckoutError::TooSlow
            | CheckoutError::CrossSite
            | CheckoutError::OutOfStock { .. }
            | CheckoutError::NotFound
            | CheckoutError::IntentReused
            | CheckoutError::Purged { .. }
            | CheckoutError::InProgress { .. }
            | CheckoutError::OrderTaken { .. }
            | CheckoutError::ReplacesUnfinished
            | CheckoutError::OrderClosed
            | CheckoutError::AmountRefused
            | CheckoutError::NotSent
            | CheckoutError::Unavailable { .. }
            | CheckoutError::RateLimited { .. }
            | CheckoutError::LostAnswer => self.phase = Phase::Idle(Idle::NotSent),
        }
    }

    pub(super) fn not_sent(&mut self) {
        self.end_of_press();
        self.phase = Phase::Idle(Idle::NotSent);
    }

    /// Nothing of this press is under way any more.
    pub(super) fn end_of_press(&mut self) {
        self.sent = None;
        self.lost = false;
        self.held = None;
        self.resends = 0;
        self.asks = 0;
        self.paying = None;
        self.asking = None;
        self.ask_timer = None;
        self.send_timer = None;
        self.stage_timer = None;
        self.hold_timer = None;
    }

    /// How patient the customer already was; a page that did not send itself starts with the calm text.
    pub(super) fn still_sending(&self) -> Live {
        match self.phase {
            Phase::Live(Live::Sending { stage }) => Live::Sending { stage },
            Phase::Live(_) | Phase::Idle(_) | Phase::Tokenizing | Phase::Over(_) => Live::Sending { stage: 2 },
        }
    }

    pub(super) fn lose_patience(&mut self) {
        if let Phase::Live(Live::Sending { stage: stage @ 0..2 }) = &mut self.phase {
            *stage += 1;
            if *stage == 1 {
                self.start_ladder(STILL_WAITING_AFTER_MS);
            }
        }
    }

    fn start_ladder(&mut self, ms: u32) {
        let tag = self.next_tag();
        self.stage_timer = Some(tag);
        self.effects.push(Effect::Wait { tag, ms });
    }
}

/// The faults behind a code of the provider, in our own words. None: no field can mend it.
pub(super) fn refused_by_provider(code: &str) -> Vec<Fault> {
    let (field, sentence) = match code {
        "incorrect_number" | "invalid_number" => (Field::Number, "Check the card number: one digit looks wrong"),
        "invalid_expiry_month" => (Field::Expiry, "Expiry month must be 01 to 12"),
        "invalid_expiry_year" | "expired_card" => {
            (Field::Expiry, "Check the expiry date: this card would have expired")
        }
        "invalid_cvc" | "incorrect_cvc" => (Field::Code, "Check the security code"),
        // Also of the sandbox, where somebody tries a card of their own.
        "card_declined" => {
            (Field::Number, "This card is not taken here: use another one (a demonstration takes test cards)")
        }
        "email_invalid" => (Field::Email, "Check the e-mail address"),
        _ => return Vec::new(),
    };
    vec![Fault { field, problem: Problem { sentence: sentence.to_owned(), unfinished: false } }]
}

impl Event {
    /// The provider's answer to a card that it does not take.
    pub fn refused(code: &str) -> Self {
        Self::TokenRefused(refused_by_provider(code))
    }
}
