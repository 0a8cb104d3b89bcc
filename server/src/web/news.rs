//! `GET /orders/{order}/news`: tells a page that the payment of its order has moved, as server-sent events.
//!
//! A courtesy: an event says that it is time to ask, and where the payment stands only asking tells, so that there is one answer to
//! that and not two. A stream ends after a while, or when the server stops; the browser opens it again. Never: a stream holds a
//! connection to the database.

use std::{convert::Infallible, time::Duration};

use app::error::CheckoutError;
use axum::{
    extract::{Path, State},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{StreamExt as _, stream};
use http::{HeaderName, HeaderValue};
use payments::{
    ids::OrderToken,
    outcome::{self, Seen},
};
use tokio::time::Instant;

use super::form::refusal;
use crate::shop::Shop;

/// How long one stream lasts. Long enough that opening it again costs nothing, short enough that nothing outlives a deploy.
const LASTS: Duration = Duration::from_secs(30);
/// How soon the browser comes back.
const RETRY: Duration = Duration::from_secs(1);
/// How often something is said when there are no news, so that no proxy takes the connection for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// For proxies that would gather an answer before they pass it on.
const UNBUFFERED: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

/// Streams the news of one order.
pub async fn listen(State(shop): State<Shop>, Path(token): Path<String>) -> Response {
    let until = Instant::now() + LASTS;
    let order = OrderToken::parse(&token).ok();
    let first = match &order {
        Some(order) => outcome::moved(&shop.ctx, order, None, until).await,
        None => Ok(None),
    };
    let listener = match (order, first) {
        (Some(order), Ok(Some(seen))) => Some(Listener { shop, order, seen, until, told: false }),
        (_, Ok(None)) | (None, _) => return refusal(&shop, "/", &CheckoutError::NotFound),
        // A browser comes back to a stream that ends, and never to one that was refused.
        (_, Err(error)) => {
            tracing::warn!(%error, "no news while the database does not answer");
            None
        }
    };
    let news = stream::iter(listener).flat_map(|listener| stream::unfold(listener, Listener::next));
    ([UNBUFFERED], Sse::new(news).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))).into_response()
}

struct Listener {
    shop: Shop,
    order: OrderToken,
    seen: Seen,
    until: Instant,
    told: bool,
}

impl Listener {
    /// The next event. The first one comes at once: what the page knows is older than the stream.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        let news = Event::default().retry(RETRY).data("moved");
        if !self.told {
            self.told = true;
            return Some((Ok(news), self));
        }
        let stopping = self.shop.stopping.clone();
        let moved = tokio::select! {
            moved = outcome::moved(&self.shop.ctx, &self.order, Some(self.seen), self.until) => moved,
            () = stopping.cancelled() => return None,
        };
        match moved {
            Ok(Some(seen)) if seen != self.seen => {
                self.seen = seen;
                Some((Ok(news), self))
            }
            // The time is over, or the database cannot answer: the browser comes back.
            Ok(_) | Err(_) => None,
        }
    }
}
