//! Reading the provider's lists with patience: a page that is not given now is asked for again, a bounded number of times.

use std::time::Duration;

use tokio::time::sleep;

use crate::{
    Ctx,
    limits::{LIST_FIRST_PAUSE, LIST_TRIES},
    pool::{StoreError, keyed},
    provider::{
        ProviderChargeId, ProviderEvent, UnknownReason,
        lists::{FindOutcome, ListOutcome, ListPage, Listed, ListedCharge, ListedRefund},
    },
};

/// Why the reading of a list ended before its end. Nothing is lost by it: the next reading begins where this one was kept.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// The provider does not answer, or not so that it can be read.
    #[error("the provider does not tell: {0}")]
    Provider(UnknownReason),
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another reader has begun, since this one was silent for too long.
    #[error("another replica has taken over")]
    Overtaken,
    /// More charges in one second than are compared.
    #[error("the provider lists more charges in one second than can be compared")]
    TooMany,
    /// The process stops.
    #[error("this process stops")]
    Ended,
}

/// Runs a keyed statement again and again, as long as work may take that nobody waits for: a busy database comes to it later.
pub(crate) async fn patiently<T, F>(ctx: &Ctx, run: impl Fn() -> F) -> Result<T, Stop>
where
    F: Future<Output = Result<T, sqlx::Error>>,
{
    let mut pauses = Pauses::default();
    loop {
        match keyed(&ctx.limits, &run).await {
            Ok(done) => return Ok(done),
            Err(error) => pauses.wait(ctx, StoreError::from(error).into()).await?,
        }
    }
}

/// Reads for a context.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a Ctx);

impl Reader<'_> {
    /// A page of events; `None`: the provider does not know its place.
    pub(crate) async fn events(self, page: &ListPage) -> Result<Option<Listed<ProviderEvent>>, Stop> {
        self.page(|| self.0.provider.list_events(page, self.0.clock.now())).await
    }

    /// A page of charges; `None`: the provider does not know its place.
    pub(crate) async fn charges(self, page: &ListPage) -> Result<Option<Listed<ListedCharge>>, Stop> {
        self.page(|| self.0.provider.list_charges(page)).await
    }

    /// A page of refunds; `None`: the provider does not know its place.
    pub(crate) async fn refunds(self, page: &ListPage) -> Result<Option<Listed<ListedRefund>>, Stop> {
        self.page(|| self.0.provider.list_refunds(page)).await
    }

    /// One charge; `None`: the provider has no such charge.
    pub(crate) async fn charge(self, id: &ProviderChargeId) -> Result<Option<ListedCharge>, Stop> {
        self.object(|| self.0.provider.find_charge(id)).await
    }

    /// One refund; `None`: the provider has no such refund.
    pub(crate) async fn refund(self, id: &str) -> Result<Option<ListedRefund>, Stop> {
        self.object(|| self.0.provider.find_refund(id)).await
    }

    async fn page<T, F>(self, ask: impl Fn() -> F) -> Result<Option<Listed<T>>, Stop>
    where
        F: Future<Output = ListOutcome<T>>,
    {
        let mut pauses = Pauses::default();
        loop {
            match ask().await {
                ListOutcome::Page(page) => return Ok(Some(page)),
                ListOutcome::NoSuchPlace => return Ok(None),
                ListOutcome::CannotTell(reason) => pauses.wait(self.0, Stop::Provider(reason)).await?,
            }
        }
    }

    async fn object<T, F>(self, ask: impl Fn() -> F) -> Result<Option<T>, Stop>
    where
        F: Future<Output = FindOutcome<T>>,
    {
        let mut pauses = Pauses::default();
        loop {
            match ask().await {
                FindOutcome::Found(object) => return Ok(Some(object)),
                FindOutcome::Missing => return Ok(None),
                FindOutcome::CannotTell(reason) => pauses.wait(self.0, Stop::Provider(reason)).await?,
            }
        }
    }
}

/// The pauses between the tries of one question.
pub(crate) struct Pauses {
    tries: u32,
    next: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { tries: 1, next: LIST_FIRST_PAUSE }
    }
}

impl Pauses {
    /// Waits for the next try. Gives the reason back, where that was the last one.
    pub(crate) async fn wait(&mut self, ctx: &Ctx, stop: Stop) -> Result<(), Stop> {
        if ctx.tasks.is_closed() {
            return Err(Stop::Ended);
        }
        if self.tries == LIST_TRIES {
            return Err(stop);
        }
        sleep(self.next).await;
        self.tries += 1;
        self.next *= 2;
        Ok(())
    }
}
