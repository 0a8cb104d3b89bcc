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

/// Runs `step` again and again, about `pause` apart, until `stop`. The pause differs by up to a fifth each time, so that replicas
/// which start together do not come to the database together for ever.
pub fn repeat<S, F>(name: &'static str, pause: Duration, stop: CancellationToken, step: S) -> JoinHandle<()>
where
    S: Fn() -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    spawn(name, async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause.mul_f64(rand::random_range(0.8..1.2))) => step().await,
            }
        }
    })
}
