//! The world of the model: one order, its intents' rows, the executors, what is on its way, and the provider. What two histories
//! have in common is the same value, so that the checker meets it once: fences are only "mine is the newest" or not, and
//! what has no order among itself is sorted.

use payments::intent::{FactKind, State};

/// How many UUIDs the clients mint for the one order.
pub const INTENTS: usize = 2;

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// Calls that clients will still make, on whatever replica.
    pub calls: Vec<Call>,
    pub order: Order,
    pub rows: [Option<Row>; INTENTS],
    /// Time as far as it matters, per intent.
    pub ages: [Age; INTENTS],
    /// How many looks recovery has left, per intent.
    pub looks: [u8; INTENTS],
    pub executors: Vec<Executor>,
    /// Requests that nobody waits for any more; they may still arrive.
    pub late: Vec<Request>,
    pub provider: Provider,
    /// Crashes, lost answers, refusals and pauses that may still happen.
    pub faults: u8,
    pub witness: Witness,
}

/// A client's call of Pay. A second call with the same UUID may freeze other bytes (another return address, say).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call {
    pub intent: u8,
    pub body: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    pub paid: bool,
    /// Which of the provider's payment intents is the order's now.
    pub payment_intent: u8,
}

/// A row of `intents`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    pub state: State,
    pub payment_intent: u8,
    pub body: u8,
    /// The provider's charge that is booked here.
    pub charge: Option<u8>,
    /// Whether it is a tombstone.
    pub purged: bool,
}

/// How old an intent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Age {
    Young,
    /// The deadline shown to the customer is over.
    Overdue,
    /// By our clock the provider may forget the key any time now.
    Old,
    /// The provider has forgotten the key.
    Forgotten,
}

/// Somebody who owns, or believes to own, an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Executor {
    pub intent: u8,
    /// Whether nobody drew a fence after this one.
    pub owns: bool,
    /// Whether it claimed the intent to recover it; else it reserved it.
    pub recovers: bool,
    /// As it was when the intent was claimed.
    pub at_bank: bool,
    /// As it was when the intent was claimed.
    pub age: Age,
    pub request: Request,
    pub next: Step,
}

/// What an executor does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Confirm. Whether the request left already makes no difference to anybody else.
    Confirm,
    /// Ask the provider. With `declined`, the repeat was declined.
    Probe { declined: bool },
    /// Cancel the payment intent.
    Cancel,
    /// Take the reservation back.
    Release,
    /// Write what it learned.
    Settle(Learned),
}

/// A fact, with the charge that it speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Learned {
    Charged(u8),
    Declined,
    /// The payment intent is cancelled: the proof that nothing was charged, nor will be.
    Cancelled,
    /// Another proof of that, which leaves the payment intent of use.
    NotCharged,
    BankStep,
    Silence,
}

impl Learned {
    /// Its name in the domain's table of moves.
    pub fn kind(self) -> FactKind {
        match self {
            Self::Charged(_) => FactKind::Charged,
            Self::Declined => FactKind::Declined,
            Self::Cancelled | Self::NotCharged => FactKind::NotCharged,
            Self::BankStep => FactKind::BankStep,
            Self::Silence => FactKind::Silence,
        }
    }
}

/// A confirm on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    pub intent: u8,
    pub key: u8,
    pub body: u8,
    pub payment_intent: u8,
}

/// How many keys there can be: one per intent, and one more for an executor that invents one by mistake.
pub const KEYS: usize = 2 * INTENTS;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Provider {
    pub payment_intents: Vec<PaymentIntent>,
    /// What it answered, per key.
    pub memory: [Option<Learned>; KEYS],
    /// For which intent each charge was made, in the order of their making.
    pub charges: Vec<u8>,
    pub notices: Vec<Notice>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PaymentIntent {
    Open,
    /// The customer of this intent is at the bank.
    AtBank(u8),
    Succeeded(u8),
    Cancelled,
}

/// A fact that the provider tells of its own accord, early, late, twice or never. It speaks of a payment intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Notice {
    pub payment_intent: u8,
    pub fact: Learned,
    /// How often it may still arrive.
    pub left: u8,
}

/// What no party of the protocol knows, and the rules are checked with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is the witness of one rule, and no state")]
pub struct Witness {
    /// The first end that anybody can have seen, per intent.
    pub seen: [Option<State>; INTENTS],
    /// Key and body of the first request that left, per intent.
    pub sent: [Option<(u8, u8)>; INTENTS],
    pub sent_other_bytes: bool,
    pub sent_unreserved: bool,
    pub wrote_behind_fence: bool,
    /// A step did not lead towards the end; see [`World::distance`].
    pub went_back: bool,
}

impl World {
    pub fn row(&self, intent: u8) -> Option<Row> {
        self.rows[usize::from(intent)]
    }

    pub fn row_mut(&mut self, intent: u8) -> &mut Option<Row> {
        &mut self.rows[usize::from(intent)]
    }

    pub fn age(&self, intent: u8) -> Age {
        self.ages[usize::from(intent)]
    }

    pub fn charges_of(&self, intent: u8) -> usize {
        self.provider.charges.iter().map(|of| usize::from(*of == intent)).sum()
    }

    pub fn intents(&self) -> impl Iterator<Item = (u8, Row)> {
        (0..).zip(self.rows).filter_map(|(intent, row)| Some((intent, row?)))
    }

    /// The intent that news of a payment intent concern: the one that is under way or was charged, else a failed one.
    pub fn concerned(&self, payment_intent: u8) -> Option<u8> {
        let mut of_it: Vec<_> = self.intents().filter(|(_, row)| row.payment_intent == payment_intent).collect();
        of_it.sort_by_key(|(_, row)| row.state == State::Failed);
        of_it.first().map(|(intent, _)| *intent)
    }

    /// Sorts what has no order, and drops what can make no difference any more, as if it had been lost: a request whose key the
    /// provider knows, or whose payment intent is cancelled, and a notice of what is booked or was written already.
    pub fn tidy(&mut self) {
        let Self { executors, late, provider, rows, .. } = self;
        let cancelled =
            |it: &Request| provider.payment_intents[usize::from(it.payment_intent)] == PaymentIntent::Cancelled;
        late.retain(|it| provider.memory[usize::from(it.key)].is_none() && !cancelled(it));
        let is_old = |it: &Notice| match it.fact {
            Learned::Charged(charge) => rows.iter().flatten().any(|row| row.charge == Some(charge)),
            Learned::Cancelled => {
                rows.iter().flatten().all(|row| row.payment_intent != it.payment_intent || row.state.is_final())
            }
            Learned::Declined | Learned::NotCharged | Learned::BankStep | Learned::Silence => false,
        };
        provider.notices.retain(|notice| notice.left > 0 && !is_old(notice));
        executors.sort_unstable();
        late.sort_unstable();
        provider.notices.sort_unstable();
    }

    /// How far it is to the end of everything, at most. Each step must make it smaller, which proves that no history of the
    /// model goes round in a circle: a call pays for the executor that it makes, a fault for what it leaves behind, a look
    /// for its own steps, and a confirm for what the provider makes of it.
    pub fn distance(&self) -> u32 {
        let notices: u32 = self.provider.notices.iter().map(|notice| u32::from(notice.left)).sum();
        let banks = self.provider.payment_intents.iter().filter(|it| matches!(it, PaymentIntent::AtBank(_))).count();
        let executors: u32 = self.executors.iter().map(|executor| executor.next.distance()).sum();
        let tombstones = self.intents().filter(|(_, row)| !row.purged).count();
        let ages: usize = self
            .ages
            .iter()
            .map(|age| 3 - [Age::Young, Age::Overdue, Age::Old].iter().filter(|than| age > than).count())
            .sum();
        let looks: u32 = self.looks.iter().map(|looks| u32::from(*looks)).sum();
        let few = |count: usize| u32::try_from(count).expect("a small number");
        few(self.calls.len()) * 100
            + u32::from(self.faults) * 20
            + looks * 60
            + executors
            + few(self.late.len()) * 10
            + few(banks) * 4
            + notices
            + few(tombstones + ages)
    }
}

impl Step {
    fn distance(self) -> u32 {
        match self {
            Self::Probe { declined: false } => 50,
            Self::Confirm => 30,
            Self::Probe { declined: true } => 12,
            Self::Cancel => 14,
            Self::Release | Self::Settle(_) => 3,
        }
    }
}
