//! What crosses the wire between browser and server, and between the pages and the port. Plain data, no rules.
//!
//! Amounts are integers in minor units with an ISO 4217 code; instants are RFC 3339 in UTC. `display` is the amount as a
//! person reads it, formatted once, by the server.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// An amount of money, e.g. `{ minor: 4990, currency: "EUR", display: "€49.90" }`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoneyDto {
    pub minor: i64,
    pub currency: String,
    pub display: String,
}

/// One product of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductDto {
    pub sku: String,
    pub name: String,
    pub description: String,
    /// Address of the picture on this origin, e.g. `/pictures/mug.svg`.
    pub picture: String,
    pub price: MoneyDto,
    /// Pieces that can still be sold.
    pub in_stock: i32,
}

/// Products that are sold in one currency; an order has one currency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShelfDto {
    pub title: String,
    pub currency: String,
    pub products: Vec<ProductDto>,
}

/// One line of a cart or an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineDto {
    pub sku: String,
    pub name: String,
    pub picture: String,
    pub quantity: i32,
    pub unit: MoneyDto,
    pub amount: MoneyDto,
}

/// The cart as its cookie and the catalogue say. One part for each currency, each with its own Checkout button.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CartDto {
    /// The cart's UUID; the idempotency key of its orders.
    pub id: Option<String>,
    pub parts: Vec<CartPartDto>,
    /// Pieces in all parts together.
    pub pieces: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CartPartDto {
    pub currency: String,
    pub lines: Vec<LineDto>,
    pub total: MoneyDto,
    /// SKUs of which fewer pieces are left than the cart holds.
    pub short: Vec<String>,
}

/// An order as its pages show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderDto {
    /// The capability to see and pay the order; part of its address.
    pub token: String,
    /// For people, e.g. `AB12-CD34`.
    pub reference: String,
    pub lines: Vec<LineDto>,
    pub total: MoneyDto,
    pub created_at: String,
    /// Newest first. Those that failed gave nothing back, and are not here.
    pub refunds: Vec<RefundDto>,
}

/// Money that goes back, or went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundDto {
    pub amount: MoneyDto,
    /// When the provider sent it, RFC 3339; `None` while it is under way.
    pub sent_at: Option<String>,
    /// It gives a charge back that came where another had paid.
    pub second_charge: bool,
}

/// Where the browser sends the card. Card data never reaches this origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderDto {
    /// For scripts: POST, form-encoded as Stripe's `/v1/payment_methods`, answers JSON with `id`.
    pub payment_methods_url: String,
    /// For plain forms: POST, answers 303 back to this shop's review page.
    pub hosted_cards_url: String,
    pub publishable_key: String,
    /// Set where the provider's own script shows the card fields: then neither of the addresses above is used.
    pub element: Option<ElementDto>,
}

/// What the provider's script needs to show its card fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElementDto {
    /// The script, which has to come from the provider itself.
    pub script_url: String,
    /// What is to be paid, in the provider's units; only ever shown. The payment intent says what is charged.
    pub amount: i64,
    /// The currency as the provider writes it, e.g. `eur`.
    pub currency: String,
}

/// Everything the checkout page needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckoutDto {
    pub order: OrderDto,
    /// The UUID this page carries: that of the order's live intent, else the one offered for its next intent.
    pub intent: String,
    /// The FAILED intent that the page's intent replaces.
    pub replaces: Option<String>,
    /// Where the order stands now. `Ready` when it can be paid.
    pub outcome: OutcomeDto,
    pub provider: ProviderDto,
    /// Absolute address of the review page, where the provider sends plain forms back to.
    pub review_url: String,
    /// What a plain form filled in, if the provider sent it back with a fault; never number or code.
    pub returned: Option<ReturnedFormDto>,
}

/// A card form that the provider sent back without a payment method.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnedFormDto {
    pub email: String,
    pub name: String,
    /// Stripe's code, e.g. `incorrect_number`, `invalid_expiry_year`, `invalid_cvc`.
    pub error_code: String,
}

/// The script-less page between card form and payment: what will be paid, with which card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewDto {
    pub order: OrderDto,
    pub intent: String,
    pub replaces: Option<String>,
    pub outcome: OutcomeDto,
    pub email: String,
    pub card: CardDto,
    /// The provider's card session, exchanged for the payment method by the server when the form is posted.
    pub session: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardDto {
    /// `visa`, `mastercard`, …
    pub brand: String,
    pub last4: String,
}

/// What is known of an order's payment, in the three grammars: known yes, known no, not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeState {
    /// No intent is under way; the order can be paid.
    Ready,
    /// An intent was reserved and is being confirmed.
    Pending,
    /// The bank wants to see the customer: `continue_url`.
    ActionRequired,
    /// The provider may or may not have charged; being looked up.
    Unknown,
    Paid,
    /// The newest intent ended without a charge; the order can be paid by a new intent.
    Failed,
    /// The order can no longer be paid and was not paid.
    Closed,
}

impl OutcomeState {
    /// The value of `data-state` on `<main>`.
    pub fn as_data_state(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Pending => "sending",
            Self::ActionRequired => "bank_step",
            Self::Unknown => "unknown",
            Self::Paid => "paid",
            Self::Failed => "declined",
            Self::Closed => "expired",
        }
    }

    /// Whether the intent is under way, so that asking again makes sense and paying again does not.
    pub fn is_unresolved(self) -> bool {
        matches!(self, Self::Pending | Self::ActionRequired | Self::Unknown)
    }
}

/// The outcome of an order, as asked by its page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeDto {
    pub state: OutcomeState,
    /// The intent that `state` speaks of; absent when `Ready` or `Closed`.
    pub intent: Option<String>,
    pub reference: String,
    pub amount: MoneyDto,
    /// Set when `Paid`.
    pub charge: Option<String>,
    pub paid_at: Option<String>,
    /// Set when `Failed`.
    pub decline: Option<DeclineReason>,
    /// Set when `ActionRequired`: the bank's page at the provider.
    pub continue_url: Option<String>,
    /// Set when `Unknown`: by when it will be known. Absent once that moment is past and it still is not.
    #[serde(default)]
    pub decide_by: Option<MomentDto>,
    /// E-mail of the payer, shortened for display, e.g. `a…@b.example`.
    pub email_hint: Option<String>,
    /// Whether the intent that was asked for is known to the server; `false` means it never arrived and may be re-sent.
    pub received: bool,
}

/// A moment, for the wire and for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MomentDto {
    /// RFC 3339, in UTC.
    pub at: String,
    /// As the server writes it, `14:35 UTC`; the browser writes its own local time instead.
    pub display: String,
}

/// The proof that an intent took no money and never will: it FAILED, and the reason is known. The only way to the sentence
/// "No money was taken".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotCharged(DeclineReason);

impl NotCharged {
    /// Why.
    pub const fn reason(self) -> DeclineReason {
        self.0
    }
}

impl OutcomeDto {
    /// The proof, if this outcome is one.
    pub fn not_charged(&self) -> Option<NotCharged> {
        self.decline.filter(|_| self.state == OutcomeState::Failed).map(NotCharged)
    }
}

impl AnswerDto {
    /// The proof, if this answer is one.
    pub fn not_charged(&self) -> Option<NotCharged> {
        self.decline.filter(|_| self.state == AnswerState::Failed).map(NotCharged)
    }
}

/// Why an intent FAILED, as far as the customer may know. Lost, stolen and fraud are never told apart from `Generic`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeclineReason {
    Generic,
    InsufficientFunds,
    ExpiredCard,
    IncorrectCode,
    IncorrectNumber,
    BankCheckFailed,
    CardNotSupported,
    OverLimit,
    TryLater,
    /// Not the bank's no: it was looked up and proven that nothing was charged.
    NotCharged,
}

/// What the browser sends to pay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayDto {
    pub order: String,
    /// The checkout intent's UUID, the idempotency key.
    pub intent: String,
    pub replaces: Option<String>,
    pub payment_method: String,
    pub email: String,
    /// What the customer saw, only ever compared.
    pub amount: i64,
    pub currency: String,
}

/// The bytes of an answer, passed through as they are, so that an archived answer stays byte for byte the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Answer(pub Box<RawValue>);

impl Answer {
    /// Reads the answer.
    ///
    /// # Errors
    /// When it is not of [`AnswerDto`]'s shape, which means *unknown*.
    pub fn read(&self) -> Result<AnswerDto, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }
}

/// State of an intent in an answer; the first two are final and archived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AnswerState {
    Succeeded,
    Failed,
    Pending,
}

/// An answer, read. The server writes it in `payments::intent::archive`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerDto {
    pub intent: String,
    pub state: AnswerState,
    pub amount: i64,
    pub currency: String,
    /// With `Pending`: `pending`, `unknown` or `action_required`.
    #[serde(default)]
    pub detail: Option<String>,
    #[serde(default)]
    pub charge: Option<String>,
    #[serde(default)]
    pub paid_at: Option<String>,
    #[serde(default)]
    pub decline: Option<DeclineReason>,
    #[serde(default)]
    pub continue_url: Option<String>,
}
