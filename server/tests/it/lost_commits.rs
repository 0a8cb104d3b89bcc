//! The database did what was asked, and its answer was lost on the way: committed or not?

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::json;
use server::worker;
use sqlx::{ConnectOptions as _, PgPool, postgres::PgConnectOptions};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UnixStream},
};

use crate::house::{GOOD_CARD, House, Plan, uuid};

/// A way to the database that swallows one answer: the one to the `cut`-th message from now, 0 for none. The statement has
/// run by then; the connection is closed.
#[derive(Clone)]
struct Cutter {
    cut: Arc<AtomicUsize>,
}

impl Cutter {
    /// Stands before the database; gives the options that lead through it.
    async fn before(database: &PgConnectOptions) -> (Self, PgConnectOptions) {
        let cutter = Self { cut: Arc::new(AtomicUsize::new(0)) };
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
