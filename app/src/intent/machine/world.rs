//! The machine under random schedules: several tabs of one browser, a network that loses, delays and reorders, a server that
//! keeps its half of the protocol. Whatever happens, the promises hold after every step.

#![expect(clippy::indexing_slicing, reason = "indices are taken modulo the length")]

mod server;

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use server::{Fate, Server};

use super::{Effect, Event, Idle, Kind, Live, Machine, Phase, Press, tests};
use crate::{
    dto::{AnswerDto, OutcomeDto, OutcomeState, PayDto},
    error::CheckoutError,
    intent::storage,
};

const TABS: usize = 2;

/// What a schedule does next; numbers pick one of what is possible.
#[derive(Clone, Debug)]
enum Step {
    Press {
        tab: usize,
    },
    Token {
        tab: usize,
        made: bool,
    },
    /// One message on its way arrives, or is lost.
    Deliver {
        pick: usize,
        lost: bool,
    },
    /// One timer of the tab ends.
    Tick {
        tab: usize,
        pick: usize,
    },
    Reload {
        tab: usize,
    },
    Offline {
        tab: usize,
    },
    Online {
        tab: usize,
    },
    Wake {
        tab: usize,
    },
    /// The server says that something moved, whether or not it did.
    News {
        tab: usize,
    },
    /// The provider decides about the live intent, if there is one.
    Decide {
        fate: Fate,
    },
    /// The server cannot start anything for a while.
    NotSent {
        next: bool,
    },
    BlockStorage,
}

#[derive(Clone, Debug)]
enum Message {
    Pay { tab: usize, page: u32, tag: u32, pay: PayDto },
    PayReply { tab: usize, page: u32, tag: u32, reply: Result<AnswerDto, CheckoutError> },
    Ask { tab: usize, page: u32, tag: u32, intent: String },
    AskReply { tab: usize, page: u32, tag: u32, reply: OutcomeDto },
}

/// One page in one tab, since its last load.
struct Tab {
    machine: Machine,
    page: u32,
    online: bool,
    tokenizing: bool,
    timers: Vec<u32>,
}

struct World {
    server: Server,
    stored: Option<String>,
    ever_stored: HashSet<String>,
    storage_works: bool,
    tabs: Vec<Tab>,
    network: Vec<Message>,
    minted: u64,
    /// The payment methods that each UUID was sent with.
    sent: HashMap<String, HashSet<String>>,
    pages: u32,
}

fn uuid(kind: u32, number: u64) -> String {
    format!("{kind:08x}-0000-4000-8000-{number:012x}")
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            server: Server::default(),
            stored: None,
            ever_stored: HashSet::new(),
            storage_works: true,
            tabs: Vec::new(),
            network: Vec::new(),
            minted: 0,
            sent: HashMap::new(),
            pages: 0,
        };
        for _ in 0..TABS {
            let blank = world.blank();
            world.tabs.push(blank);
        }
        for tab in 0..TABS {
            world.load(tab);
        }
        world
    }

    fn written_by_server(&mut self) -> super::Seed {
        let replaces = self.server.newest.clone().filter(|_| self.server.state() == OutcomeState::Failed);
        if self.server.intents.contains_key(&uuid(0, self.server.offered)) {
            self.server.offered += 1;
        }
        let intent = self.server.live().map_or_else(|| uuid(0, self.server.offered), ToOwned::to_owned);
        tests::seed(self.server.outcome(&intent), &intent, replaces.as_deref(), Kind::Checkout)
    }

    fn blank(&mut self) -> Tab {
        let seed = self.written_by_server();
        Tab { machine: Machine::new(&seed), page: 0, online: true, tokenizing: false, timers: Vec::new() }
    }

    fn load(&mut self, tab: usize) {
        let seed = self.written_by_server();
        self.pages += 1;
        let fresh =
            Tab { machine: Machine::new(&seed), page: self.pages, online: true, tokenizing: false, timers: vec![] };
        self.tabs[tab] = fresh;
        let stored = self.stored.clone().filter(|_| self.storage_works);
        let intent = storage::adopt(stored, &seed.intent, seed.replaces.as_deref());
        self.event(tab, Event::Adopted { intent, random: u64::from(self.pages) });
    }

    fn event(&mut self, tab: usize, event: Event) {
        let effects = self.tabs[tab].machine.handle(event);
        for effect in effects {
            self.run(tab, effect);
        }
    }

    fn store(&mut self, tab: usize, stored: Option<String>) {
        if !self.storage_works || self.stored == stored {
            return;
        }
        self.ever_stored.extend(stored.clone());
        self.stored = stored;
        for other in (0..TABS).filter(|other| *other != tab) {
            let now = self.stored.clone();
            self.event(other, Event::StoredElsewhere(now));
        }
    }

    fn run(&mut self, tab: usize, effect: Effect) {
        let page = self.tabs[tab].page;
        match effect {
            Effect::Store(intent) => self.store(tab, Some(intent)),
            Effect::Forget => self.store(tab, None),
            Effect::Mint { retired } => {
                assert!(self.is_final(&retired), "{retired} was retired while it may still be charged");
                let stored = self.stored.clone().filter(|stored| self.storage_works && *stored != retired);
                let minted = stored.unwrap_or_else(|| {
                    self.minted += 1;
                    uuid(1, self.minted)
                });
                self.event(tab, Event::Minted(Some(minted)));
            }
            Effect::Tokenize => self.tabs[tab].tokenizing = true,
            Effect::Pay { tag, pay } => {
                self.check_sending(tab, &pay);
                self.network.push(Message::Pay { tab, page, tag, pay });
            }
            Effect::Ask { tag, intent } => self.network.push(Message::Ask { tab, page, tag, intent }),
            Effect::Wait { tag, .. } => self.tabs[tab].timers.push(tag),
            Effect::GoToOrder | Effect::Reload => self.load(tab),
            Effect::Repeat => {}
        }
    }

    fn is_final(&self, intent: &str) -> bool {
        self.server.intents.get(intent).is_some_and(|(_, state)| *state == OutcomeState::Failed)
    }

    /// The heart: what this page sends while anything it sent may be alive is the same request, and stored before.
    fn check_sending(&mut self, tab: usize, pay: &PayDto) {
        assert!(!self.storage_works || self.ever_stored.contains(&pay.intent), "sent before it was stored");
        let page = self.tabs[tab].page;
        for message in &self.network {
            if let Message::Pay { page: sender, pay: before, .. } = message
                && *sender == page
                && !self.is_final(&before.intent)
            {
                assert_eq!(before.intent, pay.intent, "a second UUID beside one that may still arrive");
            }
        }
        if let Some(live) = self.server.live()
            && self.server.intents[live].0.payment_method.starts_with(&format!("pm_{page}_"))
        {
            assert_eq!(live, pay.intent, "a second UUID beside this page's live one");
        }
        self.sent.entry(pay.intent.clone()).or_default().insert(pay.payment_method.clone());
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Press { tab } => {
                self.event(tab, Event::Submitted(Press { email: "ana@example.org".into(), faults: Vec::new() }));
            }
            Step::Token { tab, made } => {
                if std::mem::take(&mut self.tabs[tab].tokenizing) {
                    let method = format!("pm_{}_{}", self.tabs[tab].page, self.sent.len());
                    let event = if made { Event::TokenMade(method) } else { Event::TokenLost };
                    self.event(tab, event);
                }
            }
            Step::Deliver { pick, lost } => self.deliver(pick, lost),
            Step::Tick { tab, pick } => {
                let timers = &mut self.tabs[tab].timers;
                if !timers.is_empty() {
                    let tag = timers.remove(pick % timers.len());
                    self.event(tab, Event::TimeUp { tag });
                }
            }
            Step::Reload { tab } => self.load(tab),
            Step::Offline { tab } => {
                self.tabs[tab].online = false;
                self.event(tab, Event::WentOffline);
            }
            Step::Online { tab } => {
                self.tabs[tab].online = true;
                self.event(tab, Event::WentOnline);
            }
            Step::Wake { tab } => self.event(tab, Event::Woke),
            Step::News { tab } => self.event(tab, Event::News),
            Step::Decide { fate } => self.server.decide(fate),
            Step::NotSent { next } => self.server.not_sent = next,
            Step::BlockStorage => self.storage_works = false,
        }
        self.check();
    }

    fn deliver(&mut self, pick: usize, lost: bool) {
        if self.network.is_empty() {
            return;
        }
        let message = self.network.remove(pick % self.network.len());
        match message {
            Message::Pay { tab, page, tag, pay } => {
                let reply = if lost { Err(CheckoutError::LostAnswer) } else { self.server.pay(pay) };
                self.network.push(Message::PayReply { tab, page, tag, reply });
            }
            Message::Ask { tab, page, tag, .. } if lost => self.ask_lost(tab, page, tag),
            Message::Ask { tab, page, tag, intent } => {
                let reply = self.server.outcome(&intent);
                self.network.push(Message::AskReply { tab, page, tag, reply });
            }
            Message::PayReply { tab, page, tag, reply } if self.tabs[tab].page == page => {
                let event = match reply {
                    Ok(answer) if !lost => Event::PayAnswered { tag, answer },
                    Err(error) if !lost => Event::PayFailed { tag, error },
                    Ok(_) | Err(_) => Event::PayFailed { tag, error: CheckoutError::LostAnswer },
                };
                self.event(tab, event);
            }
            Message::AskReply { tab, page, tag, .. } if lost => self.ask_lost(tab, page, tag),
            Message::AskReply { tab, page, tag, reply } if self.tabs[tab].page == page => {
                self.event(tab, Event::OutcomeAnswered { tag, outcome: reply });
            }
            Message::PayReply { .. } | Message::AskReply { .. } => {}
        }
    }

    fn ask_lost(&mut self, tab: usize, page: u32, tag: u32) {
        if self.tabs[tab].page == page {
            self.event(tab, Event::OutcomeFailed { tag, error: CheckoutError::LostAnswer });
        }
    }

    /// What holds at every moment.
    fn check(&self) {
        for tab in &self.tabs {
            let machine = &tab.machine;
            if matches!(machine.phase(), Phase::Live(_)) {
                let waits =
                    [machine.ask_timer, machine.send_timer].into_iter().flatten().any(|tag| tab.timers.contains(&tag));
                let moving = machine.paying.is_some() || machine.asking.is_some() || waits;
                assert!(moving, "a live page that neither asks, nor sends, nor will: {machine:?}");
            }
            if matches!(machine.phase(), Phase::Idle(Idle::Ready | Idle::NotSent)) {
                // A copy of what has failed meanwhile, by another tab's sending, charges nothing any more.
                let may_charge = |pay: &PayDto| {
                    self.server.intents.get(&pay.intent).is_none_or(|(_, state)| *state != OutcomeState::Failed)
                };
                let on_its_way = |message: &Message| matches!(message, Message::Pay { page, pay, .. } if *page == tab.page && may_charge(pay));
                assert!(!self.network.iter().any(on_its_way), "says that nothing was sent, and something was");
            }
            if let Phase::Live(Live::BankStep { url }) = machine.phase() {
                assert!(url.starts_with("https://"));
            }
        }
        let paid = self.server.intents.values().filter(|(_, state)| *state == OutcomeState::Paid).count();
        assert!(paid <= 1);
    }

    /// Faults stop: everything arrives, every timer ends, the provider decides. Then every page must know the truth.
    fn settle(&mut self) {
        self.server.not_sent = false;
        for tab in 0..TABS {
            self.step(Step::Online { tab });
        }
        for _ in 0..200 {
            self.server.decide(Fate::Approve);
            while !self.network.is_empty() {
                self.deliver(0, false);
            }
            for tab in 0..TABS {
                self.step(Step::Token { tab, made: true });
                self.step(Step::Tick { tab, pick: 0 });
            }
        }
        // An idle page learns what another tab did when somebody looks at it.
        for tab in 0..TABS {
            self.step(Step::Wake { tab });
        }
        while !self.network.is_empty() {
            self.deliver(0, false);
        }
        for tab in &self.tabs {
            let known = matches!(tab.machine.phase(), Phase::Idle(_) | Phase::Over(_));
            assert!(known, "still {:?} although everything is settled", tab.machine.phase());
            if self.server.state() == OutcomeState::Paid {
                assert!(matches!(tab.machine.phase(), Phase::Over(_)), "paid, and not told: {:?}", tab.machine.phase());
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let tab = 0..TABS;
    prop_oneof![
        6 => tab.clone().prop_map(|tab| Step::Press { tab }),
        6 => (tab.clone(), prop::bool::weighted(0.9)).prop_map(|(tab, made)| Step::Token { tab, made }),
        14 => (any::<usize>(), prop::bool::weighted(0.3)).prop_map(|(pick, lost)| Step::Deliver { pick, lost }),
        6 => (tab.clone(), any::<usize>()).prop_map(|(tab, pick)| Step::Tick { tab, pick }),
        1 => tab.clone().prop_map(|tab| Step::Reload { tab }),
        1 => tab.clone().prop_map(|tab| Step::Offline { tab }),
        1 => tab.clone().prop_map(|tab| Step::Online { tab }),
        1 => tab.clone().prop_map(|tab| Step::Wake { tab }),
        2 => tab.prop_map(|tab| Step::News { tab }),
        2 => prop_oneof![Just(Fate::Approve), Just(Fate::Decline), Just(Fate::Unknown), Just(Fate::BankStep)]
            .prop_map(|fate| Step::Decide { fate }),
        1 => any::<bool>().prop_map(|next| Step::NotSent { next }),
        1 => Just(Step::BlockStorage),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_schedule_makes_a_page_send_a_second_uuid_stop_asking_or_miss_the_truth(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.settle();
    }
}
