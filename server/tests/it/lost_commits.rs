//! The database did what was asked, and its answer was lost on the way: committed or not?

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use serde_json::json;
use server::worker;
use sqlx::{ConnectOptions as _, PgPool, postgres::PgConnectOptions};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixStream},
};

use crate::house::{GOOD_CARD, House, Plan, location, uuid};

/// A way to the database that swallows one answer: the one to the `cut`-th message from now, 0 for none. The statement has
/// run by then; the connection is closed.
#[derive(Clone)]
struct Cutter {
    cut: Arc<AtomicUsize>,
    /// While it is set, every answer is swallowed, and the connection stays.
    deaf: Arc<AtomicBool>,
}

impl Cutter {
    /// Stands before the database; gives the options that lead through it.
    async fn before(database: &PgConnectOptions) -> (Self, PgConnectOptions) {
        let cutter = Self { cut: Arc::default(), deaf: Arc::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut through = database.to_url_lossy();
        through.set_query(None);
        through.set_host(Some("127.0.0.1")).unwrap();
        through.set_port(Some(port)).unwrap();
        let through = PgConnectOptions::from_url(&through).unwrap();
        let (cut, behind) = (cutter.clone(), database.clone());
        worker::spawn("cutter", async move {
            while let Ok((client, _)) = listener.accept().await {
                let (cut, behind) = (cut.clone(), behind.clone());
                worker::spawn("cutter's connection", async move { cut.pass(client, &behind).await });
            }
        });
        (cutter, through)
    }

    async fn pass(self, client: TcpStream, database: &PgConnectOptions) {
        if let Some(folder) = database.get_socket() {
            let socket = folder.join(format!(".s.PGSQL.{}", database.get_port()));
            self.between(client, UnixStream::connect(socket).await.unwrap()).await;
        } else {
            let server = TcpStream::connect((database.get_host(), database.get_port())).await.unwrap();
            self.between(client, server).await;
        }
    }

    async fn between(self, mut client: TcpStream, mut server: impl AsyncRead + AsyncWrite + Unpin) {
        let (mut asked, mut answered) = (vec![0_u8; 16_384], vec![0_u8; 16_384]);
        let mut swallow = false;
        loop {
            tokio::select! {
                read = client.read(&mut asked) => {
                    let Ok(1..) = read else { return };
                    swallow = self.is_the_one();
                    if server.write_all(&asked[..read.unwrap_or_default()]).await.is_err() {
                        return;
                    }
                }
                read = server.read(&mut answered) => {
                    let Ok(1..) = read else { return };
                    if self.deaf.load(Ordering::SeqCst) {
                        continue;
                    }
                    if swallow || client.write_all(&answered[..read.unwrap_or_default()]).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Counts down to the message whose answer is swallowed.
    fn is_the_one(&self) -> bool {
        let counted = self.cut.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| (left > 0).then(|| left - 1));
        counted == Ok(1)
    }
}

/// The answer to each message of a payment is lost once: to the reservation, to the settlement, to what comes around them.
/// Running the same keyed statement again tells what became of it; there is one charge, one pair of entries, one event.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn pitfall_12_a_lost_answer_of_the_database_is_found_out_by_asking_the_same_again(db: PgPool) {
    let (cutter, through) = Cutter::before(&db.connect_options()).await;
    let house = House::through(db, &through, Plan { pool_size: 1, ..Plan::default() }).await;
    house.pay(&house.order("mug").await, &uuid(), GOOD_CARD).await.assert_succeeded();
    for message in 1..=6 {
        let order = house.order("mug").await;
        let intent = uuid();
        cutter.cut.store(message, Ordering::SeqCst);
        let answer = house.pay(&order, &intent, GOOD_CARD).await;
        assert!(matches!(answer.status.as_u16(), 200 | 409 | 503), "message {message}: {answer:?}");
        let waiting = cutter.cut.swap(0, Ordering::SeqCst);
        assert!(
            waiting == 0 || message > 2,
            "a payment has at least two messages, and the answer to this one was lost"
        );
        if house.outcome(&order, Some(&intent)).await["received"] == json!(false) {
            house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();
        }
        house.outcome_becomes(&order, "paid").await;
        house.pay(&order, &intent, GOOD_CARD).await.assert_succeeded();
        house.assert_charged_once(&order).await;
    }
    house.assert_books_balance().await;
}

/// The reservation was committed, and all that the shop sees is silence: it must not say that nothing has begun, since recovery
/// pays it later. With scripts the page asks; without, it is led to the order.
#[sqlx::test(migrator = "payments::MIGRATOR")]
async fn a_reservation_whose_answer_is_lost_is_never_said_not_to_have_begun(db: PgPool) {
    let (cutter, through) = Cutter::before(&db.connect_options()).await;
    let plan = Plan { pool_size: 4, lease: Duration::from_millis(1_500), ..Plan::default() };
    let house = House::through(db, &through, plan).await;
    for has_scripts in [true, false] {
        // So that the reservation's statement is prepared on every connection, and leaves in one message.
        let orders = join_all((0..8).map(|_| house.order("mug"))).await;
        join_all(orders.iter().map(async |order| house.pay(order, &uuid(), GOOD_CARD).await)).await;
        let (order, intent) = (house.order("mug").await, uuid());
        let form = [
            ("intent", intent.clone()),
            ("session", house.card_session(&order, &intent, "4242424242424242").await),
            ("amount", order.amount.to_string()),
            ("currency", order.currency.clone()),
        ];
        cutter.deaf.store(true, Ordering::SeqCst);
        if has_scripts {
            let answer = house.pay(&order, &intent, GOOD_CARD).await;
            assert!(answer.assert_refused(503, "lost_answer").retry_after.is_some());
        } else {
            let led = house.post_pay_form(&order, &form).await;
            assert_eq!((led.status().as_u16(), location(&led)), (303, format!("/orders/{}", order.token)));
        }
        assert_eq!(house.count("select count(*) from intents where state = 'pending'").await, 1, "it had begun");

        cutter.deaf.store(false, Ordering::SeqCst);
        house.outcome_becomes(&order, "paid").await;
        house.assert_charged_once(&order).await;
    }
    house.assert_books_balance().await;
}
