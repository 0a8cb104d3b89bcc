//! Logs: one compact line per event on standard error, filtered by `PAYONCE_LOG`.

/// Starts logging for the whole process; called once.
pub fn start(filter: &str) {
    let filter = tracing_subscriber::EnvFilter::new(filter);
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).compact().init();
}
