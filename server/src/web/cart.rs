//! The cart: a cookie with the cart's UUID and its lines, changed by plain forms. No script and no row in the database.
//!
//! The UUID is minted with the first line and is the idempotency key of the orders made from it. It is kept while lines
//! change, since an order's content is part of what makes it the same order, and renewed once an order of it was paid.

use std::collections::BTreeMap;

use app::error::CheckoutError;
use axum::{extract::State, response::Response};
use http::{HeaderMap, HeaderValue, header};
use payments::{
    ids::{CartId, Sku},
    limits::MAX_LINE_QUANTITY,
};
use serde::Deserialize;

use super::{
    RequestFacts,
    form::{Form, problem, see_other},
};
use crate::shop::Shop;

const COOKIE: &str = "payonce_cart";
/// A cart is kept for 30 days after its last change.
const COOKIE_MAX_AGE_SECONDS: u32 = 30 * 24 * 60 * 60;
/// Different products in one cart; far above the catalogue's size, far below the 4 kB that a cookie may have.
const MAX_LINES: usize = 20;

/// A cart, as its cookie holds it: `UUID~mug:2~lamp:1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CartCookie {
    pub id: CartId,
    /// SKU → pieces, each 1 to [`MAX_LINE_QUANTITY`].
    pub lines: BTreeMap<String, i32>,
}

/// What the cart's buttons send.
#[derive(Deserialize)]
pub struct CartForm {
    sku: String,
    change: Change,
    quantity: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Change {
    Add,
    Remove,
    Set,
}

/// `POST /cart`: changes one line and shows the cart.
pub async fn change(State(shop): State<Shop>, headers: HeaderMap, Form(form): Form<CartForm>) -> Response {
    match changed(&shop, RequestFacts::of(&headers).cart, &form).await {
        Ok(cart) => {
            let mut response = see_other("/cart");
            cart.store(response.headers_mut());
            response
        }
        Err(error) => problem(&shop, &error, None),
    }
}

async fn changed(shop: &Shop, cart: Option<CartCookie>, form: &CartForm) -> Result<CartCookie, CheckoutError> {
    let mut cart = cart.unwrap_or_else(|| CartCookie { id: shop.ctx.ids.cart(), lines: BTreeMap::new() });
    let held = cart.lines.get(&form.sku).copied().unwrap_or(0);
    let wanted = match form.change {
        Change::Add => held.saturating_add(quantity(form.quantity.as_deref().unwrap_or("1"))?),
        Change::Set => quantity(form.quantity.as_deref().unwrap_or_default())?,
        Change::Remove => 0,
    };
    if wanted == 0 {
        cart.lines.remove(&form.sku);
        return Ok(cart);
    }
    let known = payments::catalog::list_products(&shop.ctx).await.map_err(crate::port::unavailable)?;
    if !known.iter().any(|product| product.sku.as_str() == form.sku) {
        return Err(CheckoutError::NotFound);
    }
    if cart.lines.len() >= MAX_LINES && held == 0 {
        return Err(invalid(&format!("A cart holds at most {MAX_LINES} different things")));
    }
    cart.lines.insert(form.sku.clone(), wanted.min(MAX_LINE_QUANTITY));
    Ok(cart)
}

/// Reads a number of pieces: 0 to [`MAX_LINE_QUANTITY`], nothing else.
fn quantity(text: &str) -> Result<i32, CheckoutError> {
    let pieces = text.trim().parse::<u8>().map(i32::from).or(Err(invalid("Enter a whole number of pieces")))?;
    if pieces <= MAX_LINE_QUANTITY {
        Ok(pieces)
    } else {
        Err(invalid(&format!("We send at most {MAX_LINE_QUANTITY} at a time")))
    }
}

fn invalid(problem: &str) -> CheckoutError {
    CheckoutError::InvalidField { field: "quantity".to_owned(), problem: problem.to_owned() }
}

impl CartCookie {
    /// The cart of a request; none where there is no cookie, or one that this shop did not write.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| *name == COOKIE)
            .find_map(|(_, value)| Self::parse(value))
    }

    fn parse(value: &str) -> Option<Self> {
        let mut parts = value.split('~');
        let id = CartId::parse(parts.next()?).ok()?;
        let lines = parts
            .take(MAX_LINES)
            .map(|line| {
                let (sku, pieces) = line.split_once(':')?;
                let pieces = pieces.parse::<u8>().ok().map(i32::from)?;
                (Sku::parse(sku).is_ok() && (1..=MAX_LINE_QUANTITY).contains(&pieces)).then(|| (sku.to_owned(), pieces))
            })
            .collect::<Option<BTreeMap<_, _>>>()?;
        Some(Self { id, lines })
    }

    /// The cart without the lines of an order that was paid, under a UUID of its own.
    #[must_use]
    pub fn without(&self, skus: &[String], id: CartId) -> Self {
        let lines =
            self.lines.iter().filter(|(sku, _)| !skus.contains(sku)).map(|(sku, n)| (sku.clone(), *n)).collect();
        Self { id, lines }
    }

    /// Writes the cookie. Scripts need not see it.
    pub fn store(&self, headers: &mut HeaderMap) {
        let lines: String =
            self.lines.iter().flat_map(|(sku, pieces)| ["~".to_owned(), sku.clone(), format!(":{pieces}")]).collect();
        let cookie =
            format!("{COOKIE}={}{lines}; Path=/; Max-Age={COOKIE_MAX_AGE_SECONDS}; HttpOnly; SameSite=Lax", self.id);
        if let Ok(value) = HeaderValue::from_str(&cookie) {
            headers.append(header::SET_COOKIE, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, string::string_regex};

    use super::*;

    const ID: &str = "7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a11";

    fn parse(value: &str) -> Option<CartCookie> {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, format!("other=1; {COOKIE}={value}").parse().expect("a header value"));
        CartCookie::of(&headers)
    }

    #[test]
    fn a_cart_survives_its_cookie() {
        let cart = parse(&format!("{ID}~lamp:1~mug:2")).expect("a cart");
        let mut headers = HeaderMap::new();
        cart.store(&mut headers);
        let cookie = headers[header::SET_COOKIE].to_str().expect("ASCII");
        assert!(cookie.starts_with(&format!("{COOKIE}={ID}~lamp:1~mug:2;")), "{cookie}");
    }

    #[test]
    fn b163_quantities_that_are_no_pieces_are_refused() {
        for text in ["-1", "1.5", "1e9", "100", "1000000000", "", "two"] {
            assert!(quantity(text).is_err(), "{text}");
        }
        assert_eq!(quantity("0").ok(), Some(0));
        assert_eq!(quantity(" 99 ").ok(), Some(99));
    }

    #[test]
    fn a_cookie_that_the_shop_did_not_write_is_no_cart() {
        for value in ["", "x", "~mug:1", &format!("{ID}~mug:0"), &format!("{ID}~mug:-1"), &format!("{ID}~<b>:1")] {
            assert_eq!(parse(value), None, "{value}");
        }
    }

    #[test]
    fn a_paid_part_leaves_the_cart_and_the_rest_stays() {
        let cart = parse(&format!("{ID}~lamp:1~tenugui:2")).expect("a cart");
        let next = CartId::parse("2b9d4f60-8e17-4a3b-b1c4-6f0e9d5a7c22").expect("a UUID");
        let rest = cart.without(&["lamp".to_owned()], next);
        assert_eq!(rest.lines.keys().collect::<Vec<_>>(), ["tenugui"]);
        assert_ne!(rest.id.to_string(), cart.id.to_string());
    }

    /// A cookie header: anything, and what is nearly a cart.
    fn cookies() -> impl Strategy<Value = Vec<u8>> {
        let cart = "payonce_cart=7f3c1e0a-5b1d-4c8e-9a52-0d6f2b7e4a1[0-9a-g](~[a-z]{1,4}:[1-9][0-9]?){0,24}(~[a-z<-]{0,4}:[0-9+-]{0,3})?";
        let among = string_regex(&format!("[ -~]{{0,12}};? {cart}(; [a-z]=[ -~]{{0,9}})?")).expect("a pattern");
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..80),
            cart.prop_map(String::into_bytes),
            among.prop_map(String::into_bytes),
        ]
    }

    proptest! {
        /// A cart that is read has real names and numbers of pieces, fits into a cookie, and is read again as itself.
        #[test]
        fn a_cart_that_is_read_is_one_that_the_shop_could_have_written(cookie in cookies()) {
            let Ok(value) = HeaderValue::from_bytes(&cookie) else { return Ok(()) };
            let headers = HeaderMap::from_iter([(header::COOKIE, value)]);
            if let Some(cart) = CartCookie::of(&headers) {
                prop_assert!(cart.lines.len() <= MAX_LINES);
                for (sku, pieces) in &cart.lines {
                    prop_assert!(Sku::parse(sku).is_ok() && (1..=MAX_LINE_QUANTITY).contains(pieces), "{sku}:{pieces}");
                }
                let mut written = HeaderMap::new();
                cart.store(&mut written);
                let written = written[header::SET_COOKIE].to_str().expect("ASCII").to_owned();
                prop_assert!(written.len() < 4_096);
                let back = written.split(';').next().unwrap_or_default();
                let headers = HeaderMap::from_iter([(header::COOKIE, back.parse().expect("a header value"))]);
                prop_assert_eq!(CartCookie::of(&headers), Some(cart));
            }
        }

        #[test]
        fn pieces_that_are_read_are_pieces(text in prop_oneof![any::<String>(), "[ +-]?[0-9.e]{0,4} ?"]) {
            if let Ok(pieces) = quantity(&text) {
                prop_assert!((0..=MAX_LINE_QUANTITY).contains(&pieces));
                prop_assert_eq!(text.trim().trim_start_matches('+').parse::<i32>().ok(), Some(pieces));
            }
        }
    }
}
