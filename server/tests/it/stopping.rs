//! Servers as processes of their own, and the signals that end them: nothing is lost, nobody waits for who is not coming, and
//! the exit is orderly.

use std::{
    process::{ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use server::worker;
use sqlx::PgPool;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    time::timeout,
};

use crate::{
    house::{Answer, GOOD_CARD, House, Order, SECRET_KEY, until, uuid},
    raw::Raw,
};

const PATIENCE: Duration = Duration::from_mins(1);

/// One `payonce serve` on the house's database and provider.
struct Server {
    child: Child,
    url: String,
    log: Arc<Mutex<String>>,
}

impl Server {
    /// Starts it, and waits until it is ready.
    async fn start(house: &House, settings: &[(&str, &str)]) -> Self {
        let server = Self::launch(house, settings).await;
        until("the server is ready", || async { status(&server.url, "/readyz").await == Some(200) }).await;
        server
    }

    async fn launch(house: &House, settings: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_payonce"))
            .arg("serve")
            .env_clear()
            .env("DATABASE_URL", house.database_url())
            .env("PAYONCE_ADDR", "127.0.0.1:0")
            .env("PAYONCE_PROVIDER_URL", &house.sandbox.url)
            .env("PAYONCE_PROVIDER_SECRET_KEY", SECRET_KEY)
            .env("PAYONCE_DATABASE_POOL_SIZE", "4")
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (mut lines, kept) = (BufReader::new(child.stderr.take().unwrap()).lines(), Arc::clone(&log));
        worker::spawn("log of a server", async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let mut log = kept.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let address = || {
            let log = log.lock().unwrap();
            let said = log.split("shop on ").nth(1)?.split_whitespace().next()?.to_owned();
            Some(said)
        };
        until("the server says where it is", || async { address().is_some() }).await;
        let url = address().unwrap();
        Self { child, url, log }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().expect("it runs").try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the orderly end.
    async fn assert_ends_well(&mut self) {
        let ended: ExitStatus = timeout(PATIENCE, self.child.wait())
            .await
            .unwrap_or_else(|_| panic!("still there: {}", self.said()))
            .unwrap();
        assert_eq!(ended.code(), Some(0), "{}", self.said());
        assert!(!self.said().contains("panicked"), "{}", self.said());
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    fn said(&self) -> String {
        self.log.lock().unwrap().clone()
    }
}

/// Asks over a connection of its own. `None`: nobody is there.
async fn status(url: &str, path: &str) -> Option<u16> {
    let mut raw = Raw::try_to(url).await.ok()?;
    let asked = format!("GET {path} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n");
    raw.stream.write_all(asked.as_bytes()).await.ok()?;
    raw.end().await.split(' ').nth(1)?.parse().ok()
}

async fn is_refused(url: &str) -> bool {
    Raw::try_to(url).await.is_err()
}

/// Pays in a task of its own; the answer, if one came.
fn paying(house: &House, url: &str, order: &Order) -> tokio::sync::oneshot::Receiver<Option<Answer>> {
    let sent = house.http.post(format!("{url}/rpc/pay")).json(&House::pay_body(order, &uuid(), GOOD_CARD));
    let (tell, told) = tokio::sync::oneshot::channel();
    worker::spawn("customer", async move {
        let answer = match sent.send().await {
            Ok(answer) => Some(Answer::of(answer).await),
            Err(_) => None,
        };
        tell.send(answer).ok();
    });
    told
}

async fn provider_takes(house: &House, ms: u64) {
    let fault = json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":ms},"next":1});
    house.sandbox.fault(&house.http, fault).await;
}

async fn reserved(house: &House, intents: i64) {
    until("the payment is reserved", || async { house.count("select count(*) from intents").await == intents }).await;
}

/// An idle connection, half a request, half a body, and a payment that takes three seconds. The signal closes the first,
/// gives the halves a moment, refuses newcomers at once, and waits for the payment.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b129_a_stop_waits_for_payments_and_for_nothing_else(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let mut server = Server::start(&house, &[]).await;
    let mut idle = Raw::to(&server.url).await;
    assert_eq!(idle.send("GET /livez HTTP/1.1\r\nHost: shop\r\n\r\n").await.answer().await.status, 200);
    let mut half = Raw::to(&server.url).await;
    half.send("POST /checkout/x/pay HTTP/1.1\r\n").await;
    let mut half_a_body = Raw::to(&server.url).await;
    half_a_body.send("POST /rpc/pay HTTP/1.1\r\nHost: shop\r\nContent-Length: 500\r\n\r\n{").await;
    provider_takes(&house, 4_000).await;
    let mut paid = paying(&house, &server.url, &order);
    reserved(&house, 1).await;

    server.signal(Signal::TERM);
    until("newcomers are refused", || is_refused(&server.url)).await;
    assert_eq!(idle.end().await, "");
    assert_eq!(half.end().await, "");
    assert!(half_a_body.end().await.contains("408"), "told that nothing was done");
    assert!(paid.try_recv().is_err() && !server.has_ended(), "all of that while the payment was under way");
    paid.await.unwrap().expect("an answer").assert_succeeded();
    server.assert_ends_well().await;
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// A supervisor's SIGTERM and a person's Ctrl-C are the same order.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn b131_sigterm_and_ctrl_c_are_the_same_orderly_end(db: PgPool) {
    let house = House::new(db).await;
    for (number, signal) in (1..).zip([Signal::TERM, Signal::INT]) {
        let order = house.order("mug").await;
        let mut server = Server::start(&house, &[]).await;
        provider_takes(&house, 1_500).await;
        let paid = paying(&house, &server.url, &order);
        reserved(&house, number).await;
        server.signal(signal);
        paid.await.unwrap().expect("an answer").assert_succeeded();
        server.assert_ends_well().await;
        house.assert_charged_once(&order).await;
    }
    house.assert_books_balance().await;
}

/// The order to stop may come at any moment, also the one in which the server has just begun.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_stop_right_after_the_start_is_as_orderly_as_any(db: PgPool) {
    let house = House::new(db).await;
    for _ in 0..3 {
        let mut ready = Server::start(&house, &[]).await;
        ready.signal(Signal::TERM);
        ready.assert_ends_well().await;
        let mut hardly_there = Server::launch(&house, &[]).await;
        hardly_there.signal(Signal::TERM);
        hardly_there.assert_ends_well().await;
    }
}

/// Not ready, but open: balancers notice before anybody is refused.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_server_that_will_stop_says_so_before_it_refuses_anybody(db: PgPool) {
    let house = House::new(db).await;
    let order = house.order("mug").await;
    let mut server = Server::start(&house, &[("PAYONCE_STOP_DELAY_MS", "60000")]).await;
    let version = house.http.get(format!("{}/version", server.url)).send().await.unwrap().text().await.unwrap();
    let newest = payments::MIGRATOR.iter().last().unwrap().version;
    let mut lines = version.lines();
    assert_eq!(lines.next(), Some(env!("CARGO_PKG_VERSION")));
    assert!(lines.next().unwrap().starts_with("commit "), "{version}");
    assert_eq!(lines.next(), Some(format!("schema {newest}").as_str()));

    server.signal(Signal::TERM);
    until("it is not ready", || async { status(&server.url, "/readyz").await == Some(503) }).await;
    assert_eq!(status(&server.url, "/livez").await, Some(200));
    paying(&house, &server.url, &order).await.unwrap().expect("an answer").assert_succeeded();
    assert!(!server.has_ended());
    // Whoever is in a hurry sends the signal again.
    server.signal(Signal::TERM);
    server.assert_ends_well().await;
    house.assert_books_balance().await;
}

/// The provider takes longer than the grace, or somebody is in a hurry: the intent goes to another replica at once, long
/// before its lease ends, and is charged once.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_k3_what_does_not_end_in_time_is_handed_over(db: PgPool) {
    let house = House::new(db).await;
    let lease = ("PAYONCE_LEASE_MS", "600000");
    let mut other = Server::start(&house, &[lease]).await;
    for (number, grace, signals) in [(1, "300", 1), (2, "60000", 2)] {
        let order = house.order("mug").await;
        let mut server = Server::start(&house, &[lease, ("PAYONCE_STOP_GRACE_MS", grace)]).await;
        provider_takes(&house, 20_000).await;
        let lost = paying(&house, &server.url, &order);
        reserved(&house, number).await;
        server.signal(Signal::TERM);
        if signals == 2 {
            until("newcomers are refused", || is_refused(&server.url)).await;
            server.signal(Signal::TERM);
        }
        server.assert_ends_well().await;
        assert_eq!(lost.await.unwrap(), None, "this customer learns the outcome on the order's page");
        house.outcome_becomes(&order, "paid").await;
        house.assert_charged_once(&order).await;
    }
    other.signal(Signal::TERM);
    other.assert_ends_well().await;
    house.assert_books_balance().await;
}

/// The smallest balancer: takes turns among the servers that say they are ready, one connection after the other, and tries
/// the next one where it is refused before it sent anything.
struct Balancer {
    url: String,
    servers: Arc<Mutex<Vec<String>>>,
}

impl Balancer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let servers = Arc::new(Mutex::new(Vec::<String>::new()));
        let all = Arc::clone(&servers);
        worker::spawn("balancer", async move {
            let turn = Arc::new(AtomicUsize::new(0));
            while let Ok((mut customer, _)) = listener.accept().await {
                let (all, turn) = (Arc::clone(&all), Arc::clone(&turn));
                worker::spawn("a balanced connection", async move {
                    let mut servers = all.lock().unwrap().clone();
                    let first = turn.fetch_add(1, Ordering::SeqCst) % servers.len();
                    servers.rotate_left(first);
                    for server in servers {
                        if status(&server, "/readyz").await == Some(200)
                            && let Ok(mut stream) = TcpStream::connect(server.strip_prefix("http://").unwrap()).await
                        {
                            tokio::io::copy_bidirectional(&mut customer, &mut stream).await.ok();
                            return;
                        }
                    }
                });
            }
        });
        Self { url, servers }
    }

    fn add(&self, server: &Server) {
        self.servers.lock().unwrap().push(server.url.clone());
    }
}

/// Both replicas are replaced, one after the other, while customers pay: not one request fails, and every key is charged once.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_k3_a_rolling_deploy_fails_nobody(db: PgPool) {
    let house = House::new(db).await;
    let settings = [("PAYONCE_STOP_DELAY_MS", "500")];
    let balancer = Balancer::start().await;
    let mut old = vec![Server::start(&house, &settings).await, Server::start(&house, &settings).await];
    for server in &old {
        balancer.add(server);
    }
    let customer = reqwest::Client::builder().pool_max_idle_per_host(0).no_proxy().build().unwrap();

    let over = AtomicBool::new(false);
    let customers = join_all((0..4).map(|_| async {
        let mut paid = 0;
        while !over.load(Ordering::SeqCst) {
            let order = house.order("mug").await;
            let pay = House::pay_body(&order, &uuid(), GOOD_CARD);
            let answer = customer.post(format!("{}/rpc/pay", balancer.url)).json(&pay).send().await;
            Answer::of(answer.expect("no request fails")).await.assert_succeeded();
            paid += 1;
        }
        paid
    }));
    let deploy = async {
        let mut new = Vec::new();
        for old in &mut old {
            let replacement = Server::start(&house, &settings).await;
            balancer.add(&replacement);
            old.signal(Signal::TERM);
            old.assert_ends_well().await;
            new.push(replacement);
        }
        over.store(true, Ordering::SeqCst);
        new
    };
    let (paid, new) = tokio::join!(customers, deploy);
    let paid: usize = paid.into_iter().sum();
    assert!(paid >= 8, "customers paid all along: {paid}");
    assert_eq!(house.sandbox.charges(&house.http, None).await.len(), paid);
    assert_eq!(
        house.count("select count(*) from intents where state = 'succeeded'").await,
        i64::try_from(paid).unwrap()
    );
    for mut server in new {
        server.signal(Signal::TERM);
        server.assert_ends_well().await;
    }
    house.assert_books_balance().await;
}
