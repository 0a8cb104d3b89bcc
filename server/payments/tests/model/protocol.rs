//! The protocol of the model: what reserve, confirm, settle, recovery and purge do to the world, one atomic step at a time. It
//! mirrors `payments::{pay, settle, recover}` and their statements; each mistake is one line that leaves out what they do.

use payments::intent::State;

use crate::{
    provider::Decision,
    world::{Age, Call, Executor, Learned, Order, PaymentIntent, Provider, Request, Row, Step, Witness, World},
};

/// What the model is checked with.
#[derive(Clone, Debug)]
pub struct Protocol {
    pub calls: &'static [Call],
    pub faults: u8,
    /// Executors that recover at the same time.
    pub workers: usize,
    /// Whether the provider's payment intent succeeds only once. Without, only the discipline with keys is left.
    pub payment_intent_protects: bool,
    /// Whether some cards are sent to the bank.
    pub bank: bool,
    pub mistake: Option<Mistake>,
}

/// What somebody could get wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mistake {
    ChargeBeforeReserve,
    SettleWithoutFence,
    ResendAfterRetention,
    ResendWithFreshKey,
    SilenceIsFailure,
    DeadlineAloneDecides,
    NoLiveIndex,
    PurgeDeletes,
    DeclineNoticeDecides,
    /// The provider forgets a key while a request with it may still come.
    NoMargin,
    NoRecovery,
}

/// One step of somebody's. Numbers of executors, late requests and notices are places in the world's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The reserve of a call commits. A call that finds the intent, or the order taken, only reads, at any time and as often as it
    /// likes; that is no step, and it stays among the calls that may come.
    Call(usize),
    /// An executor's process ends; its request stays on its way.
    Crash(usize),
    /// The connection is refused: proven not sent.
    Refuse(usize),
    /// The provider handles a request that somebody waits for, and the answer comes.
    Answer(usize, Option<Decision>),
    /// No answer in time. The request may still arrive.
    GiveUp(usize),
    /// The provider handles a request that nobody waits for any more.
    ArriveLate(usize, Option<Decision>),
    /// A request is lost for good.
    Vanish(usize),
    Probe(usize),
    ProbeFails(usize),
    Cancel(usize),
    /// The answer to a cancel is lost, whether it was done or not.
    CancelFails(usize, bool),
    Write(usize),
    /// Recovery takes an intent that nobody owns, or whose owner's lease is over. If that owner lives, it has been asleep, which
    /// is a fault, and wakes up as a zombie.
    Claim(u8),
    /// An unresolved intent grows older.
    Age(u8),
    /// A final intent is so old that it becomes a tombstone, and that the provider has forgotten its key.
    Purge(u8),
    /// The customer comes back from the bank.
    LeaveBank(u8, bool),
    Notice(usize),
    /// The notice never comes (again).
    LoseNotice(usize),
}

impl Protocol {
    pub fn start(&self) -> World {
        World {
            calls: self.calls.to_vec(),
            order: Order { paid: false, payment_intent: 0 },
            rows: [None; crate::world::INTENTS],
            ages: [Age::Young; crate::world::INTENTS],
            // One look before the deadline; after it one that finds the bank step, one that ends it, and one for each fault.
            looks: [self.faults + 3; crate::world::INTENTS],
            executors: Vec::new(),
            late: Vec::new(),
            provider: Provider {
                payment_intents: vec![PaymentIntent::Open],
                memory: [None; crate::world::KEYS],
                charges: Vec::new(),
                notices: Vec::new(),
            },
            faults: self.faults,
            witness: Witness::default(),
        }
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Does `action`. The world says whether it was possible by `Model::actions`.
    pub fn act(&self, world: &mut World, action: Action) {
        match action {
            Action::Call(place) => self.call(world, place),
            Action::Crash(place) => {
                world.faults -= 1;
                let executor = world.executors.remove(place);
                if executor.next == Step::Confirm {
                    world.late.push(executor.request);
                }
            }
            Action::Refuse(place) => {
                world.faults -= 1;
                let executor = &mut world.executors[place];
                // What a repeat proves about itself it does not prove about the first one.
                executor.next = if executor.recovers { Step::Settle(Learned::Silence) } else { Step::Release };
            }
            Action::Answer(place, decision) => self.answer(world, place, decision),
            Action::GiveUp(place) => {
                world.faults -= 1;
                world.late.push(world.executors[place].request);
                world.executors[place].next = Step::Settle(Learned::Silence);
            }
            Action::ArriveLate(place, decision) => {
                let request = world.late.remove(place);
                note_sent(world, request);
                world.provider.handle(request, decision);
            }
            Action::Vanish(place) => drop(world.late.remove(place)),
            Action::Probe(place) => self.probe(world, place),
            Action::ProbeFails(place) => {
                world.faults -= 1;
                let executor = &mut world.executors[place];
                let cancels = is_overdue(executor) && executor.next == Step::Probe { declined: false };
                executor.next = if cancels { Step::Cancel } else { Step::Settle(Learned::Silence) };
            }
            Action::Cancel(place) => {
                let payment_intent = world.executors[place].request.payment_intent;
                world.provider.cancel(payment_intent);
                world.executors[place].next = Step::Settle(found(world, payment_intent));
            }
            Action::CancelFails(place, done) => {
                world.faults -= 1;
                if done {
                    world.provider.cancel(world.executors[place].request.payment_intent);
                }
                world.executors[place].next = Step::Settle(Learned::Silence);
            }
            Action::Write(place) => self.write(world, place),
            Action::Claim(intent) => claim(world, intent),
            Action::Age(intent) => Self::age(world, intent),
            Action::Purge(intent) => self.purge(world, intent),
            Action::LeaveBank(payment_intent, approved) => world.provider.leave_bank(payment_intent, approved),
            Action::Notice(place) => {
                let notice = &mut world.provider.notices[place];
                notice.left -= 1;
                let (concerned, fact) = (notice.payment_intent, notice.fact);
                if let Some(intent) = world.concerned(concerned) {
                    self.settle(world, intent, fact);
                }
            }
            Action::LoseNotice(place) => world.provider.notices[place].left = 0,
        }
    }

    /// Whether the reserve of a call would write: the key is new, and the order is free. Else it only reads.
    pub fn reserves(&self, world: &World, call: Call) -> bool {
        let free = !world.order.paid && world.intents().all(|(_, row)| row.state.allows_another());
        world.row(call.intent).is_none() && (free || self.makes(Mistake::NoLiveIndex))
    }

    /// Reserve: one statement, one commit.
    fn call(&self, world: &mut World, place: usize) {
        let call = world.calls.remove(place);
        let payment_intent = world.order.payment_intent;
        let Call { intent, body } = call;
        if !self.makes(Mistake::ChargeBeforeReserve) {
            *world.row_mut(intent) = Some(new_row(call, payment_intent));
        }
        world.executors.push(Executor {
            intent,
            owns: true,
            recovers: false,
            at_bank: false,
            age: Age::Young,
            request: Request { intent, key: intent, body, payment_intent },
            next: Step::Confirm,
        });
    }

    /// The provider handles the request that an executor waits for.
    fn answer(&self, world: &mut World, place: usize, decision: Option<Decision>) {
        let request = world.executors[place].request;
        note_sent(world, request);
        let answer = world.provider.handle(request, decision);
        if decision == Some(Decision::Decline) && self.makes(Mistake::DeclineNoticeDecides) {
            world.provider.tell(request.payment_intent, Learned::Declined);
        }
        // An earlier send may have been charged meanwhile, so that "no" is only said if the payment intent agrees.
        let executor = &mut world.executors[place];
        let asks_again = executor.recovers && answer == Learned::Declined;
        executor.next = if asks_again { Step::Probe { declined: true } } else { Step::Settle(answer) };
    }

    fn purge(&self, world: &mut World, intent: u8) {
        world.ages[usize::from(intent)] = Age::Forgotten;
        world.provider.memory[usize::from(intent)] = None;
        let row = world.row_mut(intent);
        *row = row.filter(|_| !self.makes(Mistake::PurgeDeletes)).map(|row| Row { purged: true, ..row });
    }

    /// What recovery makes of what the provider says about the payment intent.
    fn probe(&self, world: &mut World, place: usize) {
        let executor = world.executors[place];
        let Step::Probe { declined } = executor.next else { return };
        let payment_intent = executor.request.payment_intent;
        let state = world.provider.payment_intents[usize::from(payment_intent)];
        let overdue = is_overdue(&executor);
        let resends = executor.age < Age::Old || self.makes(Mistake::ResendAfterRetention);
        let next = match state {
            PaymentIntent::Open if declined => Step::Settle(Learned::Declined),
            PaymentIntent::Open if executor.at_bank => Step::Settle(Learned::NotCharged),
            PaymentIntent::Open if overdue && self.makes(Mistake::DeadlineAloneDecides) => {
                Step::Settle(Learned::NotCharged)
            }
            PaymentIntent::Open if overdue && !self.makes(Mistake::ResendAfterRetention) => Step::Cancel,
            PaymentIntent::Open if resends => Step::Confirm,
            PaymentIntent::Open | PaymentIntent::Cancelled | PaymentIntent::AtBank(_) | PaymentIntent::Succeeded(_) => {
                Step::Settle(found(world, payment_intent))
            }
        };
        let executor = &mut world.executors[place];
        executor.next = next;
        if next == Step::Confirm && self.makes(Mistake::ResendWithFreshKey) {
            executor.request.key += 2;
        }
    }

    /// An executor's write. It ends with it.
    fn write(&self, world: &mut World, place: usize) {
        let executor = world.executors.remove(place);
        let before = world.row(executor.intent);
        if before.is_none() && self.makes(Mistake::ChargeBeforeReserve) {
            let Executor { intent, request, .. } = executor;
            let call = Call { intent, body: request.body };
            *world.row_mut(intent) = Some(new_row(call, request.payment_intent));
        }
        if executor.owns || self.makes(Mistake::SettleWithoutFence) {
            match executor.next {
                Step::Settle(learned) => self.settle(world, executor.intent, learned),
                Step::Release if before.is_some_and(|row| row.state == State::Pending) => {
                    *world.row_mut(executor.intent) = None;
                }
                Step::Release | Step::Confirm | Step::Probe { .. } | Step::Cancel => {}
            }
        }
        world.witness.wrote_behind_fence |= !executor.owns && world.row(executor.intent) != before;
    }

    /// Settle: the one function that moves an intent, by the domain's own table.
    fn settle(&self, world: &mut World, intent: u8, learned: Learned) {
        let Some(row) = world.row(intent) else { return };
        // One charge is booked once: where the payment intent's charge is another intent's, this one has none.
        let is_booked = |charge| world.intents().any(|(of, row)| of != intent && row.charge == Some(charge));
        let is_of_another = matches!(learned, Learned::Charged(charge) if is_booked(charge));
        let is_mistaken = learned == Learned::Silence && self.makes(Mistake::SilenceIsFailure);
        let learned = if is_of_another || is_mistaken { Learned::NotCharged } else { learned };
        if row.state.is_final() {
            // Money is never dropped; the answer stays.
            world.order.paid |= matches!(learned, Learned::Charged(_));
            return;
        }
        let state = row.state.after(learned.kind());
        let charge = if let Learned::Charged(charge) = learned { Some(charge) } else { row.charge };
        *world.row_mut(intent) = Some(Row { state, charge, ..row });
        world.order.paid |= state == State::Succeeded;
        if state.is_final() {
            world.looks[usize::from(intent)] = 0;
            world.witness.seen[usize::from(intent)].get_or_insert(state);
        }
        // A cancelled payment intent is of no use any more: the order gets its next.
        if state.is_final() && learned == Learned::Cancelled && row.payment_intent == world.order.payment_intent {
            world.order.payment_intent += 1;
            world.provider.payment_intents.push(PaymentIntent::Open);
        }
    }

    fn age(world: &mut World, intent: u8) {
        let age = &mut world.ages[usize::from(intent)];
        *age = match *age {
            Age::Young => Age::Overdue,
            Age::Overdue => Age::Old,
            Age::Old | Age::Forgotten => Age::Forgotten,
        };
        if *age == Age::Forgotten {
            world.provider.memory[usize::from(intent)] = None;
        }
    }
}

fn new_row(call: Call, payment_intent: u8) -> Row {
    Row { state: State::Pending, payment_intent, body: call.body, charge: None, purged: false }
}

fn note_sent(world: &mut World, request: Request) {
    let bytes = (request.key, request.body);
    world.witness.sent_unreserved |= world.row(request.intent).is_none();
    let first = *world.witness.sent[usize::from(request.intent)].get_or_insert(bytes);
    world.witness.sent_other_bytes |= first != bytes;
}

/// The fact that a payment intent shows by itself.
fn found(world: &World, payment_intent: u8) -> Learned {
    match world.provider.payment_intents[usize::from(payment_intent)] {
        PaymentIntent::Succeeded(charge) => Learned::Charged(charge),
        PaymentIntent::AtBank(_) => Learned::BankStep,
        PaymentIntent::Cancelled => Learned::Cancelled,
        PaymentIntent::Open => Learned::Silence,
    }
}

/// A bank step waits for the customer, so that it is never overdue.
fn is_overdue(executor: &Executor) -> bool {
    executor.age > Age::Young && !executor.at_bank
}

/// Recovery becomes the owner: everybody before it is fenced off.
fn claim(world: &mut World, intent: u8) {
    let Some(row) = world.row(intent) else { return };
    world.looks[usize::from(intent)] -= 1;
    world.faults -= u8::from(has_owner(world, intent));
    for executor in world.executors.iter_mut().filter(|executor| executor.intent == intent) {
        executor.owns = false;
    }
    world.executors.push(Executor {
        intent,
        owns: true,
        recovers: true,
        at_bank: row.state == State::ActionRequired,
        age: world.age(intent),
        request: Request { intent, key: intent, body: row.body, payment_intent: row.payment_intent },
        next: Step::Probe { declined: false },
    });
}

pub fn has_owner(world: &World, intent: u8) -> bool {
    world.executors.iter().any(|executor| executor.intent == intent && executor.owns)
}
