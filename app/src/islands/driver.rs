//! Runs the machine in the browser: events in, screen and effects out.
//!
//! Decides nothing: what may be sent, stored, minted or shown is [`crate::intent::machine`]'s alone.

use std::{cell::RefCell, rc::Rc};

use wasm_bindgen::JsCast;
use wasm_bindgen_futures::spawn_local;
use web_sys::{EventTarget, PageTransitionEvent, VisibilityState};

use super::{
    dom,
    element::CardFields,
    form,
    net::{self, Provider},
    news::News,
    paint,
};
use crate::{
    fields::{self, Checked, Contact},
    intent::{
        machine::{Effect, Event, Kind, Machine, Press},
        mint, storage,
        wire::{self, LiveSeed},
        words::{Focus, Screen, screen},
    },
};

/// When a page that its browser knows asks after it came alive, in milliseconds. A request that a reload overtook reaches the
/// server within its own journey; the last look allows a slow one.
const RETURN_ASKS_MS: [u32; 3] = [300, 1_500, 5_000];

struct Page {
    machine: RefCell<Machine>,
    shown: RefCell<Screen>,
    /// What the last press brings to the provider, until the provider has it.
    card: RefCell<Option<Card>>,
    /// The provider's card fields, where they are not ours.
    card_fields: Option<Rc<CardFields>>,
    shop: String,
    order: String,
    provider: Provider,
    news: News,
}

/// What a press brings to the provider.
enum Card {
    /// Of our own fields.
    Ours(Checked),
    /// Of the provider's, which hold the rest.
    Theirs(Contact),
}

/// Brings the page to life around the island. Where its seed cannot be read the page stays plain, and pays all the same.
pub fn start() {
    let Some(LiveSeed { mut seed, shop, payment_methods_url, publishable_key }) = seed_in_page() else { return };
    let shown = screen(&Machine::new(&seed), &shop);
    seed.outcome = net::in_local_time(seed.outcome);
    let machine = Machine::new(&seed);
    let page = Rc::new(Page {
        machine: RefCell::new(machine),
        shown: RefCell::new(shown),
        card: RefCell::new(None),
        card_fields: CardFields::of_page(&publishable_key),
        shop,
        order: seed.order.clone(),
        provider: Provider { payment_methods_url, publishable_key },
        news: News::default(),
    });
    let queued = page.take_over_form();
    page.listen();
    page.first_focus(seed.kind);
    let intent = match seed.kind {
        Kind::Checkout => storage::adopt(storage::load(&seed.order), &seed.intent, seed.replaces.as_deref()),
        Kind::Outcome => seed.intent.clone(),
    };
    let random = mint::random().map_or(0, |bytes| bytes.iter().fold(0, |sum, byte| sum << 7 ^ u64::from(*byte)));
    page.take_in(Event::Adopted { intent, random });
    if dom::window().is_some_and(|window| !window.navigator().on_line()) {
        page.take_in(Event::WentOffline);
    }
    page.ask_after_return();
    if queued {
        page.press();
    }
}

fn seed_in_page() -> Option<LiveSeed> {
    wire::live_seed(&net::parse(&dom::one("main")?.get_attribute("data-live")?)?)
}

impl Page {
    /// What happened goes through the machine; what it says is shown and done.
    fn take_in(self: &Rc<Self>, event: Event) {
        let (effects, now) = {
            let mut machine = self.machine.borrow_mut();
            let effects = machine.handle(event);
            form::set_intent(machine.intent(), machine.replaces());
            if let Some(main) = dom::one("main") {
                dom::set_attribute(&main, "data-intent", Some(machine.shown_intent()));
            }
            (effects, screen(&machine, &self.shop))
        };
        let before = self.shown.replace(now.clone());
        if before != now {
            paint::paint(&before, &now, &self.shop);
        }
        if let Some(card_fields) = &self.card_fields {
            card_fields.ensure();
        }
        for effect in effects {
            self.run(effect);
        }
        self.listen_for_news();
    }

    fn listen_for_news(self: &Rc<Self>) {
        let wanted = self.machine.borrow().awaits_news();
        self.news.listen(wanted, &self.order, || {
            let page = Rc::clone(self);
            Box::new(move || page.take_in(Event::News))
        });
    }

    fn run(self: &Rc<Self>, effect: Effect) {
        match effect {
            Effect::Store(intent) => storage::store(&self.order, &intent),
            Effect::Forget => storage::forget(&self.order),
            Effect::Mint { retired } => {
                // Another tab may have made the successor already; then there is one successor, not two.
                let stored = storage::load(&self.order).filter(|stored| *stored != retired);
                self.take_in(Event::Minted(stored.or_else(mint::fresh)));
            }
            Effect::Tokenize => self.tokenize(),
            Effect::Pay { tag, pay } => {
                let page = Rc::clone(self);
                spawn_local(async move {
                    let event = match net::pay(&pay).await {
                        Ok(answer) => Event::PayAnswered { tag, answer },
                        Err(error) => Event::PayFailed { tag, error },
                    };
                    page.take_in(event);
                });
            }
            Effect::Ask { tag, intent } => {
                let page = Rc::clone(self);
                spawn_local(async move {
                    let event = match net::outcome(&page.order, &intent).await {
                        Ok(outcome) => Event::OutcomeAnswered { tag, outcome },
                        Err(error) => Event::OutcomeFailed { tag, error },
                    };
                    page.take_in(event);
                });
            }
            Effect::Wait { tag, ms } => {
                let page = Rc::clone(self);
                dom::after(ms, Box::new(move || page.take_in(Event::TimeUp { tag })));
            }
            Effect::Repeat => paint::repeat(),
            Effect::GoToOrder => self.leave(true),
            Effect::Reload => self.leave(false),
        }
    }

    fn tokenize(self: &Rc<Self>) {
        let page = Rc::clone(self);
        let card = self.card.borrow_mut().take();
        spawn_local(async move {
            let event = match (card, &page.card_fields) {
                (Some(Card::Ours(card)), _) => net::token(&page.provider, &card).await,
                (Some(Card::Theirs(contact)), Some(fields)) => fields.token(&contact).await,
                (Some(Card::Theirs(_)) | None, _) => Event::TokenLost,
            };
            page.take_in(event);
        });
    }

    /// Leaves for the server's page. Replaces this one, so that Back does not lead to a form.
    fn leave(&self, to_order: bool) {
        let Some(location) = dom::window().map(|window| window.location()) else { return };
        let _ = if to_order { location.replace(&["/orders/", &self.order].concat()) } else { location.reload() };
    }

    /// A press of Pay, by whatever means: the form as it stands now.
    fn press(self: &Rc<Self>) {
        let typed = form::typed();
        let checked = match &self.card_fields {
            None => fields::check(&typed, form::now()).map(|card| (card.email.clone(), Card::Ours(card))),
            Some(fields) => fields.check(&typed).map(|contact| (contact.email.clone(), Card::Theirs(contact))),
        };
        let press = match checked {
            Ok((email, card)) => {
                self.card.replace(Some(card));
                Press { email, faults: Vec::new() }
            }
            Err(faults) => Press { email: String::new(), faults },
        };
        self.take_in(Event::Submitted(press));
    }

    /// The form is the island's from here on. Answers whether a press came too early and waits.
    fn take_over_form(self: &Rc<Self>) -> bool {
        let Some(form) = form::element() else { return false };
        form.set_no_validate(true);
        let page = Rc::clone(self);
        dom::on(
            &form,
            "submit",
            Box::new(move |event| {
                event.prevent_default();
                page.press();
            }),
        );
        dom::on(&form, "input", Box::new(|event| form::on_input(&event)));
        dom::on(&form, "focusout", Box::new(|event| form::on_leave(&event)));
        if let Some(summary) = dom::one(".error-summary") {
            dom::on(&summary, "click", Box::new(|event| form::on_summary_click(&event)));
        }
        let queued = form.get_attribute("data-queued");
        dom::set_attribute(&form, "data-hydrated", Some(""));
        // Anything but "1": the plain form is on its way already.
        queued.as_deref() == Some("1")
    }

    /// This browser was here before (adopt.js says so): a press of then may still be on its way to the server, behind the page
    /// that the server wrote meanwhile. So the page asks, and asks again until such a press must have arrived.
    fn ask_after_return(self: &Rc<Self>) {
        if dom::one(form::FORM).is_none_or(|form| form.get_attribute("data-known").is_none()) {
            return;
        }
        for milliseconds in RETURN_ASKS_MS {
            let page = Rc::clone(self);
            dom::after(milliseconds, Box::new(move || page.take_in(Event::Woke)));
        }
    }

    fn listen(self: &Rc<Self>) {
        if let Some(check) = dom::one(".onward__check") {
            let page = Rc::clone(self);
            dom::on(
                &check,
                "click",
                Box::new(move |_| {
                    page.take_in(Event::Woke);
                    paint::repeat();
                }),
            );
        }
        let (Some(window), Some(document)) = (dom::window(), dom::document()) else { return };
        self.on_event(&window, "offline", |_, _| Some(Event::WentOffline));
        self.on_event(&window, "online", |_, _| Some(Event::WentOnline));
        self.on_event(&document, "visibilitychange", |page, _| {
            // A page that is hidden hears of nothing; whatever happens to it, happens through the machine.
            page.news.hush_when_hidden();
            (dom::document()?.visibility_state() == VisibilityState::Visible).then_some(Event::Woke)
        });
        self.on_event(&window, "pageshow", |_, event| {
            event.dyn_ref::<PageTransitionEvent>()?.persisted().then_some(Event::Woke)
        });
        self.on_event(&window, "storage", |page, event| {
            let changed = event.dyn_ref::<web_sys::StorageEvent>()?.key();
            let ours = storage::key(&page.order);
            changed.is_none_or(|key| key == ours).then(|| Event::StoredElsewhere(storage::load(&page.order)))
        });
    }

    fn on_event(self: &Rc<Self>, target: &EventTarget, name: &str, read: fn(&Self, &web_sys::Event) -> Option<Event>) {
        let page = Rc::clone(self);
        dom::on(
            target,
            name,
            Box::new(move |event| {
                if let Some(event) = read(&page, &event) {
                    page.take_in(event);
                }
            }),
        );
    }

    /// A page that arrives with news puts the focus on them, unless the customer was faster.
    fn first_focus(&self, kind: Kind) {
        if !dom::focus_is_free() {
            return;
        }
        match (kind, self.shown.borrow().focus) {
            (Kind::Outcome, _) => paint::take_focus(Focus::Heading),
            (Kind::Checkout, focus @ Focus::Summary) => paint::take_focus(focus),
            (Kind::Checkout, Focus::Stays | Focus::Heading | Focus::Field(_)) => {}
        }
    }
}
