//! The cluster through its public door: data outlives every kind of end, and there is never a second postmaster.

#![expect(clippy::expect_used, reason = "a test that cannot do its work has failed")]

use std::{
    fs,
    future::Future,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use embedded_postgres::{EmbeddedOptions, EmbeddedPostgres, EmbeddedPostgresError};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use sqlx::{Connection as _, PgConnection};

/// A data folder that goes away with the test. Not among the temporary files: a container may keep those in memory.
struct DataDir(PathBuf);

impl DataDir {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("embedded-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the target folder can be written to");
        Self(folder)
    }

    fn options(&self) -> EmbeddedOptions {
        EmbeddedOptions::in_data_dir(&self.0)
    }

    async fn start(&self) -> EmbeddedPostgres {
        EmbeddedPostgres::start(self.options()).await.expect("the cluster starts")
    }

    fn postmaster(&self) -> Pid {
        let file = fs::read_to_string(self.0.join("postgres/cluster/postmaster.pid")).expect("it runs");
        let pid = file.lines().next().and_then(|line| line.parse().ok()).expect("the first line is the process");
        Pid::from_raw(pid).expect("it is not 0")
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        if let Ok(folder) = fs::canonicalize(self.0.join("postgres")) {
            // What cannot be removed lies in the target folder and harms nobody.
            let _ = fs::remove_dir_all(folder);
        }
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn connect(cluster: &EmbeddedPostgres) -> PgConnection {
    PgConnection::connect(cluster.url()).await.expect("a started cluster takes connections")
}

async fn write_one_row(cluster: &EmbeddedPostgres) {
    let mut connection = connect(cluster).await;
    sqlx::raw_sql("create table kept (n int); insert into kept values (42)")
        .execute(&mut connection)
        .await
        .expect("it writes");
}

async fn read_the_row(cluster: &EmbeddedPostgres) -> i32 {
    let mut connection = connect(cluster).await;
    sqlx::query_scalar("select n from kept").fetch_one(&mut connection).await.expect("the row is there")
}

async fn ask(cluster: &EmbeddedPostgres, setting: &'static str) -> String {
    let mut connection = connect(cluster).await;
    let query = "select current_setting($1)";
    sqlx::query_scalar(query).bind(setting).fetch_one(&mut connection).await.expect("every server knows it")
}

/// Polls until something is so, at most half a minute.
async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let started = Instant::now();
    while !is_so().await {
        assert!(started.elapsed() < Duration::from_secs(30), "{what} did not come about");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_second_start_keeps_the_data() {
    let data = DataDir::new("keeps");
    let cluster = data.start().await;
    write_one_row(&cluster).await;
    cluster.stop().await.expect("it stops in order");
    assert!(!data.0.join("postgres/cluster/postmaster.pid").exists(), "an orderly end removes it");

    let cluster = data.start().await;
    assert_eq!(read_the_row(&cluster).await, 42);
    cluster.stop().await.expect("it stops in order");
}

#[tokio::test]
async fn a_killed_postmaster_is_started_again_at_the_same_address() {
    let data = DataDir::new("killed");
    let cluster = data.start().await;
    write_one_row(&cluster).await;
    kill_process(data.postmaster(), Signal::KILL).expect("it runs");
    until("the restart", || async { PgConnection::connect(cluster.url()).await.is_ok() }).await;
    assert_eq!(read_the_row(&cluster).await, 42);
    cluster.stop().await.expect("it stops in order");
}

/// The server is gone without a word and its postmaster, too: only the files are left.
#[tokio::test]
async fn files_of_a_killed_cluster_are_recovered_at_the_next_start() {
    let data = DataDir::new("files");
    let cluster = data.start().await;
    write_one_row(&cluster).await;
    let stale = fs::read(data.0.join("postgres/cluster/postmaster.pid")).expect("it runs");
    cluster.stop().await.expect("it stops in order");
    // As kill -9 of both leaves it: the file names a process that is none of ours.
    fs::write(data.0.join("postgres/cluster/postmaster.pid"), stale).expect("it can be written");

    let cluster = data.start().await;
    assert_eq!(read_the_row(&cluster).await, 42);
    cluster.stop().await.expect("it stops in order");
}

/// Dropping the handle stands in for a killed server: nobody waits for the end of the postmaster.
#[tokio::test]
async fn a_postmaster_that_was_left_running_is_stopped_before_the_next_one() {
    let data = DataDir::new("orphan");
    let cluster = data.start().await;
    write_one_row(&cluster).await;
    let orphan = data.postmaster();
    // A backend that is at work makes the end last.
    let mut connection = connect(&cluster).await;
    drop(cluster);

    let cluster = start_when_free(&data).await;
    assert_ne!(data.postmaster(), orphan);
    assert!(connection.ping().await.is_err(), "the old one is gone");
    assert_eq!(read_the_row(&cluster).await, 42);
    cluster.stop().await.expect("it stops in order");
}

/// The watching task of a dropped handle needs a moment to let go of the lock.
async fn start_when_free(data: &DataDir) -> EmbeddedPostgres {
    let started = Instant::now();
    loop {
        match EmbeddedPostgres::start(data.options()).await {
            Ok(cluster) => return cluster,
            Err(error) => {
                assert!(matches!(error, EmbeddedPostgresError::InUse { .. }), "{error}");
                assert!(started.elapsed() < Duration::from_secs(30), "{error}");
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_second_server_on_the_same_folder_is_told_who_is_first() {
    let data = DataDir::new("second");
    let cluster = data.start().await;
    let error = EmbeddedPostgres::start(data.options()).await.expect_err("one at a time");
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    cluster.stop().await.expect("it stops in order");
}

#[tokio::test]
async fn it_is_durable_and_closed() {
    let data = DataDir::new("closed");
    let cluster = data.start().await;
    let expected = [
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("data_checksums", "on"),
        ("listen_addresses", ""),
        ("server_encoding", "UTF8"),
        ("password_encryption", "scram-sha-256"),
    ];
    for (setting, value) in expected {
        assert_eq!(ask(&cluster, setting).await, value, "{setting}");
    }
    let wrong = cluster.url().replacen("payonce:", "payonce:0", 1);
    assert!(PgConnection::connect(&wrong).await.is_err(), "a wrong password opens nothing");

    let home = data.0.join("postgres");
    let mode = |name: &str| fs::metadata(home.join(name)).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode("password"), mode("cluster"), mode("socket")), (0o600, 0o700, 0o700));
    assert_ne!(fs::metadata(home.join("cluster")).expect("it is there").uid(), 0, "nothing runs as root");
    if geteuid().is_root() {
        assert_eq!(fs::metadata(home.join("password")).expect("it is there").uid(), 0);
    }
    cluster.stop().await.expect("it stops in order");
}

#[tokio::test]
async fn a_lost_password_is_replaced() {
    let data = DataDir::new("password");
    let cluster = data.start().await;
    write_one_row(&cluster).await;
    cluster.stop().await.expect("it stops in order");
    fs::remove_file(data.0.join("postgres/password")).expect("it is there");

    let cluster = data.start().await;
    assert_eq!(read_the_row(&cluster).await, 42);
    cluster.stop().await.expect("it stops in order");
}

#[tokio::test]
async fn a_path_that_is_too_long_for_a_socket_works() {
    let data = DataDir::new("long");
    let folder = data.0.join("x".repeat(90)).join("with space");
    let cluster = EmbeddedPostgres::start(EmbeddedOptions { folder }).await.expect("the cluster starts");
    write_one_row(&cluster).await;
    assert_eq!(read_the_row(&cluster).await, 42);
    cluster.stop().await.expect("it stops in order");
}
