//! The provider of the model: a payment intent that can be confirmed, and a memory of keys.

use crate::world::{Learned, Notice, PaymentIntent, Provider, Request};

/// What the provider decides about a confirm that it sees for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    Approve,
    Decline,
    /// The bank wants to see the customer.
    AskBank,
    /// It fails without charging, and repeats that under the same key.
    Fail,
}

impl Provider {
    /// Whether it has a decision to make about this request. What it knows by its key it repeats, and what the state of the
    /// payment intent forbids it refuses. `protects`: a payment intent succeeds only once.
    pub fn decides(&self, request: Request, protects: bool) -> bool {
        let known = self.memory[usize::from(request.key)].is_some();
        let open = match self.payment_intents[usize::from(request.payment_intent)] {
            PaymentIntent::Open => true,
            PaymentIntent::Succeeded(_) => !protects,
            PaymentIntent::AtBank(_) | PaymentIntent::Cancelled => false,
        };
        !known && open
    }

    /// Handles a confirm, and answers. Without a decision it repeats or refuses.
    pub fn handle(&mut self, request: Request, decision: Option<Decision>) -> Learned {
        let Some(decision) = decision else {
            return self.memory[usize::from(request.key)].unwrap_or(Learned::Silence);
        };
        let answer = match decision {
            Decision::Approve => Learned::Charged(self.charge(request.intent, request.payment_intent)),
            Decision::Decline => Learned::Declined,
            Decision::AskBank => {
                self.payment_intents[usize::from(request.payment_intent)] = PaymentIntent::AtBank(request.intent);
                Learned::BankStep
            }
            Decision::Fail => Learned::Silence,
        };
        self.memory[usize::from(request.key)] = Some(answer);
        answer
    }

    /// The customer comes back from the bank.
    pub fn leave_bank(&mut self, payment_intent: u8, approved: bool) {
        let place = &mut self.payment_intents[usize::from(payment_intent)];
        if let PaymentIntent::AtBank(intent) = *place {
            *place = PaymentIntent::Open;
            if approved {
                self.charge(intent, payment_intent);
            }
        }
    }

    /// Cancels, if that is still possible.
    pub fn cancel(&mut self, payment_intent: u8) {
        let place = &mut self.payment_intents[usize::from(payment_intent)];
        if matches!(place, PaymentIntent::Open | PaymentIntent::AtBank(_)) {
            *place = PaymentIntent::Cancelled;
            self.tell(payment_intent, Learned::Cancelled);
        }
    }

    /// Says something unasked, which may arrive twice.
    pub fn tell(&mut self, payment_intent: u8, fact: Learned) {
        self.notices.push(Notice { payment_intent, fact, left: 2 });
    }

    fn charge(&mut self, intent: u8, payment_intent: u8) -> u8 {
        let charge = u8::try_from(self.charges.len()).expect("a small number");
        self.charges.push(intent);
        self.payment_intents[usize::from(payment_intent)] = PaymentIntent::Succeeded(charge);
        self.tell(payment_intent, Learned::Charged(charge));
        charge
    }
}
