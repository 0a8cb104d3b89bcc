//! The database goes away: its connections are killed, it only reads, it has no room, it says nothing at all. The shop says so
//! at once and charges nothing, and is well again by itself as soon as the database is.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::future::join_all;
use payments::{clock::Clock, pool::connect};
use reqwest::StatusCode;
use serde_json::json;
use server::worker;
use sqlx::{ConnectOptions as _, Executor as _, PgPool, postgres::PgConnectOptions};
use time::OffsetDateTime;
use tokio::{
    io::{AsyncRead, AsyncWrite, copy_bidirectional},
    net::{TcpListener, TcpStream, UnixStream},
    sync::watch,
};

use crate::house::{Answer, GOOD_CARD, House, Plan, until, uuid};

/// Longest time after which a press of Pay has its answer while the database has none: the patience with one statement and its
/// repeats, and some for a busy machine.
const CLEAR_ANSWER: Duration = Duration::from_secs(9);

/// A statement and where a trigger can strike it.
const RESERVE: &str = "before insert on intents";
pub const SETTLE: &str = "before insert on ledger_entries";

/// Makes the next write at this place fail with this SQLSTATE, once. A sequence counts, since it survives the abort.
pub async fn strike_once(db: &PgPool, at: &str, code: &str) {
    let sql = format!(
        "drop trigger if exists strike on intents; drop trigger if exists strike on ledger_entries;
         drop trigger if exists strike on orders;
         drop function if exists strike(); drop sequence if exists strikes; create sequence strikes;
         create function strike() returns trigger language plpgsql as $$
         begin
             if nextval('strikes') = 1 then
                 raise exception using errcode = '{code}', message = 'struck';
             end if;
             return coalesce(new, old);
         end $$;
         create trigger strike {at} for each row execute function strike();"
    );
    db.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
}

/// The server's processes that serve the shop.
async fn backends(db: &PgPool) -> Vec<i32> {
    let sql = "select pid from pg_stat_activity where datname = current_database() and application_name = 'payonce'";
    sqlx::query_scalar(sql).fetch_all(db).await.unwrap()
}

async fn kill_backends(db: &PgPool) {
    let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity
               where datname = current_database() and application_name = 'payonce'";
    let killed: i64 = sqlx::query_scalar(sql).fetch_one(db).await.unwrap();
    assert!(killed > 0, "there was something to kill");
}

async fn readiness(house: &House) -> StatusCode {
    house.http.get(format!("{}/readyz", house.url())).send().await.unwrap().status()
}

async fn slow_confirm(house: &House, milliseconds: u64) {
    let fault = json!({"match":{"path":"confirm"},"fault":{"kind":"delay_before","ms":milliseconds},"next":1});
    house.sandbox.fault(&house.http, fault).await;
}

#[track_caller]
fn assert_told_to_come_back(answer: &Answer) {
    // Whether its statement had left tells whether anything may have begun.
    let kind = if answer.body.ends_with(br#""lost_answer"}"#) { "lost_answer" } else { "unavailable" };
    assert!(answer.assert_refused(503, kind).retry_after.is_some(), "{answer:?}");
}

/// Every connection of the shop dies: before Pay, while the reserve waits for a lock, while the provider works, while the settle
/// waits for a lock. Each time the same press of Pay ends paid, by one charge.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_p1_a_killed_backend_costs_no_payment_at_any_step(db: PgPool) {
    let house = House::new(db).await;
    let waiting = "select count(*) from pg_stat_activity
                   where datname = current_database() and application_name = 'payonce' and wait_event_type = 'Lock'";

    let order = house.order("mug").await;
    kill_backends(&house.db).await;
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();

    for (step, lock) in [("reserve", "select from orders for update"), ("settle", "select from intents for update")] {
        let order = house.order("mug").await;
        slow_confirm(&house, 300).await;
        let intent = uuid();
        let (answer, ()) = tokio::join!(house.pay(&order, &intent, GOOD_CARD), async {
            if step == "settle" {
                let pending = "select count(*) from intents where state = 'pending'";
                until("the reservation", || async { house.count(pending).await == 1 }).await;
            }
            let mut rival = house.db.acquire().await.unwrap();
            rival.execute("begin").await.unwrap();
            rival.execute(lock).await.unwrap();
            until("the statement waits", || async { house.count(waiting).await > 0 }).await;
            kill_backends(&house.db).await;
            rival.execute("rollback").await.unwrap();
        });
        answer.assert_succeeded();
        house.assert_charged_once(&order).await;
    }

    let (order, intent) = (house.order("mug").await, uuid());
    slow_confirm(&house, 300).await;
    let (answer, ()) = tokio::join!(house.pay(&order, &intent, GOOD_CARD), async {
        until("the reservation", || async {
            house.count("select count(*) from intents where state = 'pending'").await == 1
        })
        .await;
        kill_backends(&house.db).await;
    });
    answer.assert_succeeded();
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// Each SQLSTATE that a fault of the server shows, at the reserve: where it passes by itself the same statement is run again, and
/// where it does not the customer is told to come back, and nothing was sent.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_p9_each_failure_of_the_reserve_is_repeated_or_told(db: PgPool) {
    let house = House::new(db).await;
    for code in ["40001", "40P01", "55P03", "25006", "53300", "57P01", "57P03", "08006"] {
        let order = house.order("mug").await;
        strike_once(&house.db, RESERVE, code).await;
        house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
        assert_eq!(house.count("select last_value from strikes").await, 2, "{code}: struck, and run again");
        house.assert_charged_once(&order).await;
    }
    // Cancelled, disk full, out of memory: not repeated into the same wall, and never a charge without a reservation.
    for code in ["57014", "53100", "53200", "XX000"] {
        let order = house.order("mug").await;
        strike_once(&house.db, RESERVE, code).await;
        let (intent, confirms) = (uuid(), house.sandbox.confirms(&house.http).await);
        assert_told_to_come_back(&house.pay(&order, &intent, GOOD_CARD).await);
        assert_eq!(house.count("select last_value from strikes").await, 1, "{code}: struck, and not run again");
        assert_eq!(house.sandbox.confirms(&house.http).await, confirms, "{code}: nothing was sent");
        house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();
        house.assert_charged_once(&order).await;
    }
    house.assert_books_balance().await;
}

/// The same at the settle, where the money has moved: all of them are tried again until the charge is booked.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_p9_each_failure_of_the_settle_is_tried_again_until_the_charge_is_booked(db: PgPool) {
    let house = House::new(db).await;
    for code in ["40001", "40P01", "55P03", "57014", "25006", "53300", "53100", "57P01", "57P03", "XX000"] {
        let order = house.order("mug").await;
        strike_once(&house.db, SETTLE, code).await;
        house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
        assert!(house.count("select last_value from strikes").await > 1, "{code}: struck, and booked all the same");
        house.assert_charged_once(&order).await;
    }
    house.assert_books_balance().await;
}

/// After a failover the old primary only reads. One connection that says so is enough: none that is as old is used again, and the
/// same press of Pay goes on with a new one.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_p10_connections_to_a_server_that_only_reads_are_closed(db: PgPool) {
    let house = House::new(db).await;
    join_all((0..8).map(|_| house.order("mug"))).await;
    let before = backends(&house.db).await;
    let order = house.order("mug").await;
    strike_once(&house.db, RESERVE, "25006").await;
    house.pay(&order, &uuid(), GOOD_CARD).await.assert_succeeded();
    join_all((0..8).map(|_| house.order("mug"))).await;
    until("the old connections are closed", || async {
        let now = backends(&house.db).await;
        // The one beside the pool that answers /readyz writes nothing, and is closed by the search.
        !now.is_empty() && before.iter().all(|old| !now.contains(old))
    })
    .await;
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

/// The whole database only reads, for a while: 503 and not ready, no charge; afterwards all is well without a restart.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_13_a_database_that_only_reads_decides_no_payment(db: PgPool) {
    let house = House::new(db).await;
    let (order, intent) = (house.order("mug").await, uuid());
    assert_eq!(readiness(&house).await, StatusCode::OK);
    only_reads(&house, "on").await;
    kill_backends(&house.db).await;
    let pressed = Instant::now();
    assert_told_to_come_back(&house.pay(&order, &intent, GOOD_CARD).await);
    assert!(pressed.elapsed() < CLEAR_ANSWER, "{:?}", pressed.elapsed());
    assert_eq!(readiness(&house).await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(house.sandbox.confirms(&house.http).await, 0);
    let refused = connect(address_of(&house.db).as_str(), 1).await.expect_err("it only reads");
    assert!(refused.to_string().contains("only reads"), "{refused}");

    only_reads(&house, "off").await;
    until("ready again", || async { readiness(&house).await == StatusCode::OK }).await;
    house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();
    house.assert_charged_once(&order).await;
    house.assert_books_balance().await;
}

async fn only_reads(house: &House, value: &str) {
    let name = house.database_name();
    let sql = format!("alter database \"{name}\" set default_transaction_read_only = {value}");
    house.admin().await.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
}

fn address_of(db: &PgPool) -> String {
    db.connect_options().to_url_lossy().to_string()
}

/// The line to the database swallows everything, in both directions, without an end: the worst that a network does. Old
/// connections stay swallowed for ever.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_p6_a_line_that_swallows_everything_is_told_within_9_s_and_left(db: PgPool) {
    let (swamp, through) = Swamp::before(&db.connect_options()).await;
    let house = House::through(db, &through, Plan { pool_size: 2, ..Plan::default() }).await;
    let orders = [house.order("mug").await, house.order("mug").await, house.order("mug").await];
    let intents = [uuid(), uuid(), uuid()];
    swamp.swallow();
    let pressed = Instant::now();
    let pay = |n: usize| house.pay(&orders[n], &intents[n], GOOD_CARD);
    for answer in join_all((0..3).map(pay)).await {
        assert_told_to_come_back(&answer);
    }
    assert!(pressed.elapsed() < CLEAR_ANSWER, "{:?}", pressed.elapsed());
    // Soon it is known, and then nobody waits for a statement any more.
    until("not ready", || async { readiness(&house).await == StatusCode::SERVICE_UNAVAILABLE }).await;
    let pressed = Instant::now();
    assert_told_to_come_back(&pay(0).await);
    assert!(pressed.elapsed() < Duration::from_millis(3_900), "{:?}", pressed.elapsed());
    assert_eq!(house.sandbox.confirms(&house.http).await, 0);

    swamp.lead_through();
    until("ready again", || async { readiness(&house).await == StatusCode::OK }).await;
    // A press in the very moment of the return may meet a connection that is still on its way out, and is told to come back.
    let paid = |n: usize| until("paid", move || async move { pay(n).await.status == StatusCode::OK });
    join_all((0..3).map(paid)).await;
    for order in &orders {
        house.assert_charged_once(order).await;
    }
    house.assert_books_balance().await;
}

/// Visitors hold every connection that visitors can hold. New payments are told to come back, nothing of them is sent; the one
/// that was charged is booked at once; and the shop is not taken for dead.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_p8_a_flood_keeps_no_charged_payment_from_being_booked(db: PgPool) {
    let house = House::with(db, Plan { pool_size: 4, ..Plan::default() }).await;
    let (order, late) = (house.order("mug").await, house.order("lamp").await);
    slow_confirm(&house, 1_000).await;
    let intent = uuid();
    let (paid, ()) = tokio::join!(house.pay(&order, &intent, GOOD_CARD), async {
        until("the reservation", || async { house.count("select count(*) from intents").await == 1 }).await;
        // The shelves cannot be read, so that each visitor's statement waits; none of a payment needs them.
        let mut rival = house.db.acquire().await.unwrap();
        rival.execute("begin").await.unwrap();
        rival.execute("lock table products in access exclusive mode").await.unwrap();
        let since = Instant::now();
        let visitors = join_all((0..40).map(|_| house.http.get(format!("{}/", house.url())).send()));
        let payment = async {
            let answer = house.pay(&late, &uuid(), GOOD_CARD).await;
            assert_told_to_come_back(&answer);
            assert!(since.elapsed() < CLEAR_ANSWER, "{:?}", since.elapsed());
        };
        let booking = async {
            let paid = "select count(*) from intents where state = 'succeeded'";
            until("the charge is booked", || async { house.count(paid).await == 1 }).await;
            let took = since.elapsed();
            assert!(took < Duration::from_secs(2), "booked while the flood still stands, not after it: {took:?}");
            assert_eq!(readiness(&house).await, StatusCode::OK, "busy is not dead");
        };
        let (_visitors, (), ()) = tokio::join!(visitors, payment, booking);
        rival.execute("rollback").await.unwrap();
    });
    paid.assert_succeeded();
    house.assert_charged_once(&order).await;
    house.assert_not_charged(&late).await;
    house.pay(&late, &uuid(), GOOD_CARD).await.assert_succeeded();
    house.assert_charged_once(&late).await;
    house.assert_books_balance().await;
}

/// Leases go by the database's clock alone: replicas a day ahead and a day behind take nothing over that has an owner, and each
/// taking over draws a higher fence.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn fault_t1_t2_clocks_a_day_off_change_no_lease_and_fences_only_rise(db: PgPool) {
    let clock = |days: i64| Clock::manual(OffsetDateTime::now_utc() + time::Duration::days(days));
    let lease = Duration::from_millis(1_500);
    let mut house = House::with(db, Plan { clock: clock(1), lease, ..Plan::default() }).await;
    house.add_replica(Plan { clock: clock(-1), lease, ..Plan::default() }).await;
    let order = house.order("mug").await;
    slow_confirm(&house, 1_000).await;
    let fence = "select max(fence) from intents";
    let mut fences = Vec::new();
    let intent = uuid();
    let (answer, ()) = tokio::join!(house.pay(&order, &intent, GOOD_CARD), async {
        until("the reservation", || async { house.count("select count(*) from intents").await == 1 }).await;
        for replica in &house.replicas {
            assert_eq!(payments::recover::run_once(&replica.ctx).await.unwrap(), 0, "it has an owner");
            replica.ctx.clock.advance(86_400);
            assert_eq!(payments::recover::run_once(&replica.ctx).await.unwrap(), 0, "it has an owner");
        }
        fences.push(house.count(fence).await);
    });
    answer.assert_succeeded();
    assert_eq!(house.sandbox.confirms(&house.http).await, 1, "nobody else sent it");
    house.assert_charged_once(&order).await;

    // What nobody owns any more is taken over by drawing a number that is higher than all before.
    let second = house.order("mug").await;
    let silence = json!({"match":{"path":"confirm"},"fault":{"kind":"drop_before"},"next":1});
    house.sandbox.fault(&house.http, silence).await;
    house.pay_at(1, &second, &uuid(), GOOD_CARD).await;
    house.outcome_becomes(&second, "paid").await;
    fences.push(house.count(fence).await);
    assert!(fences[1] >= fences[0] + 2, "one for the reservation, one for taking over: {fences:?}");
    house.assert_charged_once(&second).await;
    house.assert_books_balance().await;
}

/// Who cannot be reached, and why, is told within seconds, for each of the servers; a wrong password or database at once.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_database_that_cannot_be_reached_is_told_by_host_and_cause(db: PgPool) {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let since = Instant::now();
    let url = format!("postgres://shop:hunter2@127.0.0.1:{closed},localhost:{closed}/shop");
    let error = connect(&url, 1).await.expect_err("nobody listens").to_string();
    assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
    for told in [format!("127.0.0.1:{closed}"), format!("localhost:{closed}"), "refused".to_owned()] {
        assert!(error.contains(&told) && !error.contains("hunter2"), "{told} in: {error}");
    }

    let since = Instant::now();
    let options = PgConnectOptions::clone(&db.connect_options()).database("no_such_shop");
    let error = connect(options.to_url_lossy().as_str(), 1).await.expect_err("no such database").to_string();
    assert!(error.contains("\"no_such_shop\" does not exist"), "{error}");
    assert!(since.elapsed() < Duration::from_secs(2), "not waited for: {:?}", since.elapsed());

    // The first of two is down: the other is found.
    let mut two = options.database(db.connect_options().get_database().unwrap()).to_url_lossy();
    let real = options_host(&db);
    two.set_query(Some(&format!("host=127.0.0.1,{real}&port={closed},{}", db.connect_options().get_port())));
    let pool = connect(two.as_str(), 1).await.expect("the second server takes writes");
    assert!(pool.takes_writes().await);
    pool.close().await;
}

fn options_host(db: &PgPool) -> String {
    let options = db.connect_options();
    options.get_socket().map_or_else(|| options.get_host().to_owned(), |folder| folder.display().to_string())
}

/// A way to the database that can turn into a swamp: from then on, what is on it moves no more and never ends, and new
/// connections get no answer; until it leads through again, for new connections only.
#[derive(Clone)]
struct Swamp {
    /// Counts the times that it swallowed; odd: it does.
    depth: watch::Sender<u32>,
    /// What is swallowed is kept, so that nothing is ever closed.
    swallowed: Arc<Mutex<Vec<TcpStream>>>,
}

impl Swamp {
    async fn before(database: &PgConnectOptions) -> (Self, PgConnectOptions) {
        let swamp = Self { depth: watch::Sender::new(0), swallowed: Arc::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let through = database.to_url_lossy();
        let port = listener.local_addr().unwrap().port();
        let through = through_port(through, port);
        let (inside, behind) = (swamp.clone(), database.clone());
        worker::spawn("swamp", async move {
            while let Ok((client, _)) = listener.accept().await {
                let (inside, behind) = (inside.clone(), behind.clone());
                worker::spawn("swamp's connection", async move { inside.pass(client, &behind).await });
            }
        });
        (swamp, through)
    }

    fn swallow(&self) {
        self.depth.send_modify(|depth| *depth += 1);
    }

    fn lead_through(&self) {
        self.depth.send_modify(|depth| *depth += 1);
    }

    async fn pass(self, client: TcpStream, database: &PgConnectOptions) {
        if *self.depth.borrow() % 2 == 1 {
            self.swallowed.lock().unwrap().push(client);
        } else if let Some(folder) = database.get_socket() {
            let socket = folder.join(format!(".s.PGSQL.{}", database.get_port()));
            self.between(client, UnixStream::connect(socket).await.unwrap()).await;
        } else {
            let server = TcpStream::connect((database.get_host(), database.get_port())).await.unwrap();
            self.between(client, server).await;
        }
    }

    async fn between(self, mut client: TcpStream, mut server: impl AsyncRead + AsyncWrite + Unpin) {
        let mut deeper = self.depth.subscribe();
        let swallowed = tokio::select! {
            _ = copy_bidirectional(&mut client, &mut server) => false,
            _ = deeper.changed() => true,
        };
        if swallowed {
            self.swallowed.lock().unwrap().push(client);
        }
    }
}

fn through_port(mut url: url::Url, port: u16) -> PgConnectOptions {
    url.set_query(None);
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(port)).unwrap();
    PgConnectOptions::from_url(&url).unwrap()
}
