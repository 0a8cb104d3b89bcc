//! Tasks of the process: each has a name, ends on shutdown, and its panic is told, never lost.

use std::{future::Future, time::Duration};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Runs a task beside the others. A panic in it is logged under its name.
#[expect(clippy::disallowed_methods, reason = "the one place that spawns, so that no panic is lost")]
pub fn spawn<F>(name: &'static str, task: F) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let running = tokio::spawn(task);
    tokio::spawn(async move {
        if let Err(error) = running.await
            && error.is_panic()
        {
            tracing::error!(task = name, "a task panicked");
        }
    })
}

/// Runs `step` again and again, `pause` apart, until `stop`.
pub fn repeat<S, F>(name: &'static str, pause: Duration, stop: CancellationToken, step: S) -> JoinHandle<()>
where
    S: Fn() -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    spawn(name, async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => step().await,
            }
        }
    })
}
