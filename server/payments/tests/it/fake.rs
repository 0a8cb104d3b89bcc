//! A provider in memory: it keeps its own truth about money, remembers keys, and misbehaves as told.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use payments::{
    money::Money,
    provider::{
        CardSessionOutcome, ConfirmOutcome, ConfirmRequest, ContinueUrl, CreateOutcome, Decline, DeclineReason,
        NewPaymentIntent, NotSentReason, ProbeOutcome, Provider, ProviderCharge, ProviderChargeId,
        ProviderPaymentIntentId, UnknownReason,
    },
};
use tokio::sync::Semaphore;

/// What happens to one confirm.
#[derive(Clone, Debug)]
pub enum Mood {
    Approve,
    Decline,
    BankStep,
    /// Charges, and the answer is lost.
    ChargeThenLose,
    /// Does nothing, and the answer is lost.
    LoseBefore,
    NotSent,
    Busy,
    /// The connection is lost and the executor with it.
    PanicBefore,
    ChargeThenPanic,
    /// The earlier send is charged at last, and this repeat of it is declined: a provider that does not honour its own keys.
    ChargeThenDecline,
    /// Charges another amount.
    ChargeMinor(i64),
    /// Waits for a permit, then approves.
    Gate(Arc<Semaphore>),
    /// Charges, and waits for a permit before it says so.
    ChargeThenGate(Arc<Semaphore>),
}

#[derive(Default)]
struct Truth {
    moods: VecDeque<Mood>,
    stored: HashMap<String, ConfirmOutcome>,
    intents: HashMap<String, PaymentIntent>,
    confirms: Vec<ConfirmRequest>,
    probes: usize,
    blind: bool,
    cancels: usize,
    deaf: bool,
    cancel_gate: Option<Arc<Semaphore>>,
}

struct PaymentIntent {
    order: String,
    money: Money,
    bank: bool,
    cancelled: bool,
    charges: Vec<ProviderCharge>,
}

/// The provider.
#[derive(Default)]
pub struct Fake(Mutex<Truth>);

impl Fake {
    /// The next confirms go like this; after them, all are approved.
    pub fn next(&self, moods: impl IntoIterator<Item = Mood>) {
        self.0.lock().unwrap().moods.extend(moods);
    }

    /// What was planned for later confirms is forgotten: they are approved.
    pub fn forget_moods(&self) {
        self.0.lock().unwrap().moods.clear();
    }

    /// Whether probes can tell anything.
    pub fn set_blind(&self, blind: bool) {
        self.0.lock().unwrap().blind = blind;
    }

    /// Whether cancelling is of no avail.
    pub fn set_deaf(&self, deaf: bool) {
        self.0.lock().unwrap().deaf = deaf;
    }

    /// From now on, cancelling is done at once, and its answer waits for a permit.
    pub fn hold_cancels(&self, gate: Option<Arc<Semaphore>>) {
        self.0.lock().unwrap().cancel_gate = gate;
    }

    /// The provider breaks its word: what was cancelled is charged all the same.
    pub fn charge_cancelled(&self, payment_intent: &ProviderPaymentIntentId) -> ProviderCharge {
        let mut truth = self.0.lock().unwrap();
        let intent = truth.intents.get_mut(payment_intent.as_str()).unwrap();
        assert!(intent.cancelled);
        intent.charge(intent.money)
    }

    /// The customer did (or did not do) what the bank asked.
    pub fn end_bank_step(&self, approved: bool) {
        let mut truth = self.0.lock().unwrap();
        for intent in truth.intents.values_mut().filter(|intent| intent.bank) {
            intent.bank = false;
            if approved {
                intent.charge(intent.money);
            }
        }
    }

    pub fn cancel_all(&self) {
        self.0.lock().unwrap().intents.values_mut().for_each(|intent| intent.cancelled = true);
    }

    /// Every charge that was made, with the order it belongs to.
    pub fn charges(&self) -> Vec<(String, ProviderCharge)> {
        let truth = self.0.lock().unwrap();
        let of = |intent: &PaymentIntent| {
            intent.charges.iter().map(|charge| (intent.order.clone(), charge.clone())).collect::<Vec<_>>()
        };
        truth.intents.values().flat_map(of).collect()
    }

    pub fn confirms(&self) -> Vec<ConfirmRequest> {
        self.0.lock().unwrap().confirms.clone()
    }

    pub fn cancels(&self) -> usize {
        self.0.lock().unwrap().cancels
    }

    pub fn probes(&self) -> usize {
        self.0.lock().unwrap().probes
    }
}

impl PaymentIntent {
    fn charge(&mut self, money: Money) -> ProviderCharge {
        let id = ProviderChargeId::parse(&format!("ch_{}_{}", self.order, self.charges.len())).unwrap();
        let charge = ProviderCharge { id, money, created: None };
        self.charges.push(charge.clone());
        charge
    }
}

#[async_trait]
impl Provider for Fake {
    async fn create_payment_intent(&self, new: &NewPaymentIntent) -> CreateOutcome {
        let id = format!("pi_{}", new.idempotency_key.replace(':', "_"));
        self.0.lock().unwrap().intents.entry(id.clone()).or_insert_with(|| PaymentIntent {
            order: new.order.clone(),
            money: new.money,
            bank: false,
            cancelled: false,
            charges: Vec::new(),
        });
        CreateOutcome::Created(ProviderPaymentIntentId::parse(&id).unwrap())
    }

    fn freeze_confirm(&self, payment_method: &str, return_url: &str) -> Vec<u8> {
        format!("{payment_method} {return_url}").into_bytes()
    }

    async fn confirm(&self, request: &ConfirmRequest) -> ConfirmOutcome {
        let mood = {
            let mut truth = self.0.lock().unwrap();
            truth.confirms.push(request.clone());
            truth.moods.pop_front().unwrap_or(Mood::Approve)
        };
        if let Mood::Gate(gate) = &mood {
            gate.acquire().await.unwrap().forget();
        }
        let lost = ConfirmOutcome::Unknown(UnknownReason::ConnectionLost);
        match mood {
            Mood::NotSent => return ConfirmOutcome::NotSent(NotSentReason::NotConnected),
            Mood::Busy => return ConfirmOutcome::Busy,
            Mood::LoseBefore => return lost,
            Mood::PanicBefore => panic!("the executor dies before it sends"),
            Mood::Approve
            | Mood::Decline
            | Mood::BankStep
            | Mood::ChargeThenLose
            | Mood::ChargeThenPanic
            | Mood::ChargeThenDecline
            | Mood::ChargeMinor(_)
            | Mood::ChargeThenGate(_)
            | Mood::Gate(_) => {}
        }

        let outcome = {
            let mut truth = self.0.lock().unwrap();
            if let Some(stored) = truth.stored.get(&request.idempotency_key) {
                stored.clone()
            } else {
                let intent = truth.intents.get_mut(request.payment_intent.as_str()).unwrap();
                let outcome = if !intent.charges.is_empty() || intent.cancelled {
                    ConfirmOutcome::Unknown(UnknownReason::UnexpectedState)
                } else {
                    act(intent, &mood)
                };
                truth.stored.insert(request.idempotency_key.clone(), outcome.clone());
                outcome
            }
        };
        if let Mood::ChargeThenGate(gate) = &mood {
            gate.acquire().await.unwrap().forget();
        }
        match mood {
            Mood::ChargeThenLose => lost,
            Mood::ChargeThenDecline => ConfirmOutcome::Declined(no()),
            Mood::ChargeThenPanic => panic!("the executor dies after the charge"),
            Mood::Approve
            | Mood::Decline
            | Mood::BankStep
            | Mood::ChargeMinor(_)
            | Mood::Gate(_)
            | Mood::ChargeThenGate(_) => outcome,
            Mood::LoseBefore | Mood::NotSent | Mood::Busy | Mood::PanicBefore => unreachable!("returned above"),
        }
    }

    async fn probe(&self, payment_intent: &ProviderPaymentIntentId) -> ProbeOutcome {
        let mut truth = self.0.lock().unwrap();
        truth.probes += 1;
        if truth.blind {
            return ProbeOutcome::CannotTell(UnknownReason::TimedOut);
        }
        let intent = &truth.intents[payment_intent.as_str()];
        match intent.charges.last() {
            Some(charge) => ProbeOutcome::Charged(charge.clone()),
            None if intent.cancelled => ProbeOutcome::Cancelled,
            None if intent.bank => ProbeOutcome::ActionRequired { url: bank() },
            None => ProbeOutcome::NotCharged,
        }
    }

    async fn cancel(&self, payment_intent: &ProviderPaymentIntentId) -> ProbeOutcome {
        let (gate, cancelled) = {
            let mut truth = self.0.lock().unwrap();
            if truth.deaf {
                truth.cancels += 1;
                return ProbeOutcome::CannotTell(UnknownReason::TimedOut);
            }
            let intent = truth.intents.get_mut(payment_intent.as_str()).unwrap();
            let cancelled = intent.charges.is_empty();
            intent.cancelled |= cancelled;
            intent.bank = false;
            truth.cancels += 1;
            (truth.cancel_gate.clone(), cancelled)
        };
        if let Some(gate) = gate {
            gate.acquire().await.unwrap().forget();
        }
        if cancelled { ProbeOutcome::Cancelled } else { self.probe(payment_intent).await }
    }

    async fn card_session(&self, _: &str) -> CardSessionOutcome {
        CardSessionOutcome::Missing
    }
}

fn act(intent: &mut PaymentIntent, mood: &Mood) -> ConfirmOutcome {
    match mood {
        Mood::Decline => ConfirmOutcome::Declined(no()),
        Mood::BankStep => {
            intent.bank = true;
            ConfirmOutcome::ActionRequired { url: bank() }
        }
        Mood::ChargeMinor(minor) => ConfirmOutcome::Approved(intent.charge(Money::new(*minor, intent.money.currency))),
        Mood::Approve
        | Mood::ChargeThenLose
        | Mood::ChargeThenPanic
        | Mood::ChargeThenDecline
        | Mood::Gate(_)
        | Mood::ChargeThenGate(_) => ConfirmOutcome::Approved(intent.charge(intent.money)),
        Mood::LoseBefore | Mood::NotSent | Mood::Busy | Mood::PanicBefore => unreachable!("these do not act"),
    }
}

fn no() -> Decline {
    Decline { code: "insufficient_funds".to_owned(), reason: DeclineReason::InsufficientFunds }
}

fn bank() -> ContinueUrl {
    ContinueUrl::parse("https://bank.example/step").unwrap()
}
