//! Watches the postmaster: restarts it when it dies, stops it when told or when nobody holds the cluster any more.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    EmbeddedPostgresError as Error,
    home::Home,
    postmaster::{self, Postmaster},
    programs::Programs,
};

/// A postmaster that dies more often than this, within the time below, has a reason that restarts do not cure.
const DEATHS_MAX: usize = 5;
const DEATHS_WINDOW: Duration = Duration::from_mins(1);

/// The handle of the watching task.
#[derive(Debug)]
pub(crate) struct Supervisor {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl Supervisor {
    #[expect(
        clippy::disallowed_methods,
        reason = "this task outlives every request and is waited for in `stop`; a panic in it comes out there"
    )]
    pub(crate) fn watch(postmaster: Postmaster, socket_folder: PathBuf, home: Home, programs: Programs) -> Self {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(watch(postmaster, socket_folder, home, programs, stopped));
        Self { stop, task }
    }

    pub(crate) async fn stop(self) -> Result<(), Error> {
        // The task may have given up already; then it has nobody to hear this.
        let _ = self.stop.send(());
        match self.task.await {
            Ok(end) => end,
            Err(error) => {
                tracing::error!(%error, "the watch over PostgreSQL broke");
                Err(Error::Killed)
            }
        }
    }
}

async fn watch(
    mut postmaster: Postmaster,
    socket_folder: PathBuf,
    home: Home,
    programs: Programs,
    mut stopped: oneshot::Receiver<()>,
) -> Result<(), Error> {
    let mut deaths: Vec<Instant> = Vec::new();
    loop {
        let end = tokio::select! {
            // Also when the sender was dropped.
            _ = &mut stopped => return postmaster.stop().await,
            end = postmaster.ended() => end,
        };
        tracing::error!(?end, log = %home.log().display(), "PostgreSQL ended by itself; starting it again");
        deaths.retain(|death| death.elapsed() < DEATHS_WINDOW);
        deaths.push(Instant::now());
        if deaths.len() > DEATHS_MAX {
            tracing::error!("PostgreSQL ended {DEATHS_MAX} times in a minute; it stays down");
            return Ok(());
        }
        postmaster::stop_orphan(&home).await?;
        postmaster = Postmaster::launch(&home, &programs, &socket_folder).await.inspect_err(|error| {
            tracing::error!(%error, "PostgreSQL cannot be started again; it stays down");
        })?;
    }
}
