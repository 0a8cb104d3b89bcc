//! Senders: so many connections, each sending one request after the other, or each of many payments once at the same time.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use anyhow::bail;
use bytes::Bytes;
use futures::future::{join_all, try_join_all};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::{
    client::{Answer, Connection},
    orders,
};

/// In the body of an answer that is not final.
const PENDING: &[u8] = br#""state":"PENDING""#;

/// How many may connect at the same moment: what finds no place in the kernel's queue comes again only seconds later.
static CONNECTING: Semaphore = Semaphore::const_new(256);

/// Requests that this process has sent.
static REQUESTS: AtomicUsize = AtomicUsize::new(0);

/// How often one send is tried while the answer is "not now".
const TRIES_MAX: usize = 30;
/// What the shop says in `Retry-After`.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// What a closed loop of senders saw.
pub struct Round {
    /// Requests answered.
    pub answered: usize,
    /// Seconds from the first to the last.
    pub seconds: f64,
    /// Each request's time, sorted.
    pub times: Vec<Duration>,
}

impl Round {
    pub fn per_second(&self) -> f64 {
        self.answered as f64 / self.seconds
    }

    /// The time below which this share of the requests was answered.
    pub fn quantile(&self, share: f64) -> Duration {
        let nth = ((self.times.len() as f64 * share) as usize).min(self.times.len().saturating_sub(1));
        self.times.get(nth).copied().unwrap_or_default()
    }
}

/// Senders that each send one request after the other.
#[derive(Clone, Copy)]
pub struct Loop<'a> {
    pub to: SocketAddr,
    pub path: &'a str,
    pub connections: usize,
    pub time: Duration,
    /// The number of the first request.
    pub first: i64,
}

/// Sends `body(n)` for each number until the time is over. Every answer must be 200 and pass `check`.
pub async fn closed_loop(
    Loop { to, path, connections, time, first }: Loop<'_>,
    body: impl Fn(i64) -> Bytes + Copy,
    check: impl Fn(&Answer) -> bool + Copy,
) -> anyhow::Result<Round> {
    let next = AtomicI64::new(first);
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(to, None).await?);
    }
    let started = Instant::now();
    let senders = open.into_iter().map(|mut connection| {
        let next = &next;
        async move {
            let mut times = Vec::new();
            while started.elapsed() < time {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let answer = connection.post(path, body(number)).await?;
                if answer.status != 200 || !check(&answer) {
                    bail!("number {number}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
                }
                times.push(answer.took);
            }
            anyhow::Ok(times)
        }
    });
    let mut times: Vec<Duration> = try_join_all(senders).await?.into_iter().flatten().collect();
    let seconds = started.elapsed().as_secs_f64();
    times.sort_unstable();
    Ok(Round { answered: times.len(), seconds, times })
}

/// Sends `count` requests, one after the other over one connection.
pub async fn one_by_one(to: SocketAddr, first: i64, count: i64, check: impl Fn(&Answer) -> bool) -> anyhow::Result<()> {
    let mut connection = Connection::open(to, None).await?;
    for number in first..first + count {
        let answer = connection.post("/rpc/pay", orders::pay_body(number)).await?;
        if answer.status != 200 || !check(&answer) {
            bail!("number {number}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
        }
    }
    Ok(())
}

/// Some payments, each sent three times while it is in flight.
#[derive(Clone, Debug, clap::Args)]
pub struct Sending {
    /// The two replicas.
    #[arg(long, value_delimiter = ',')]
    replicas: Vec<SocketAddr>,
    #[arg(long)]
    first: i64,
    #[arg(long)]
    count: i64,
    /// Which sender this is: its connections come from an address of its own.
    #[arg(long)]
    sender: u8,
}

/// How the three sends of each payment ended.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Sent {
    /// Payments of which every send that was waited for got the same final answer.
    pub same: usize,
    /// Payments with an answer that was not final, or with two that differ.
    pub differing: usize,
    /// Requests that were sent whole.
    pub requests: usize,
    /// What went wrong, by how often.
    pub faults: HashMap<String, usize>,
}

/// `bench send`.
pub async fn send_and_tell(sending: Sending) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(&send_thrice(&sending).await?)?);
    Ok(())
}

/// Each payment goes to one replica, then to the other; then the first connection is given up, as an impatient customer does,
/// and it goes to the first replica again. Two connections of each payment are open at the same time.
async fn send_thrice(sending: &Sending) -> anyhow::Result<Sent> {
    let from = IpAddr::V4(Ipv4Addr::new(127, 0, 1, sending.sender));
    let replicas = Arc::new(sending.replicas.clone());
    let numbers = sending.first..sending.first + sending.count;
    let first: Vec<_> = numbers.clone().map(|number| start(Arc::clone(&replicas), number, 0, from)).collect();
    until_all_are_sent(&first).await;
    let second: Vec<_> = numbers.clone().map(|number| start(Arc::clone(&replicas), number, 1, from)).collect();
    until_all_are_sent(&second).await;
    let mut sent = Sent::default();
    for send in first {
        send.task.abort();
        match send.task.await {
            // Given up on purpose, or answered before it was.
            Ok(Ok(_)) => {}
            Err(end) if end.is_cancelled() => {}
            Ok(Err(error)) => *sent.faults.entry(format!("first: {error:#}")).or_default() += 1,
            Err(_) => *sent.faults.entry("first: panic".to_owned()).or_default() += 1,
        }
    }
    let third: Vec<_> = numbers.map(|number| start(Arc::clone(&replicas), number, 0, from)).collect();
    let (second, third) = (
        join_all(second.into_iter().map(|send| send.task)).await,
        join_all(third.into_iter().map(|send| send.task)).await,
    );

    sent.requests = REQUESTS.load(Ordering::Relaxed);
    for (second, third) in second.into_iter().zip(third) {
        match (second?, third?) {
            (Ok(second), Ok(third)) if second == third && second.0 == 200 => sent.same += 1,
            (Ok(second), Ok(third)) => {
                sent.differing += 1;
                *sent.faults.entry(format!("{} and {}", second.0, third.0)).or_default() += 1;
            }
            (Err(error), _) | (_, Err(error)) => {
                sent.differing += 1;
                *sent.faults.entry(format!("{error:#}")).or_default() += 1;
            }
        }
    }
    Ok(sent)
}

/// One send on its way.
struct Send {
    task: tokio::task::JoinHandle<anyhow::Result<(u16, Bytes)>>,
    written: tokio::sync::oneshot::Receiver<()>,
}

fn start(replicas: Arc<Vec<SocketAddr>>, number: i64, turn: usize, from: IpAddr) -> Send {
    let (tell, written) = tokio::sync::oneshot::channel();
    let to = replicas[(usize::try_from(number).unwrap_or_default() + turn) % replicas.len()];
    #[expect(clippy::disallowed_methods, reason = "its end is awaited, and tells of a panic")]
    let task = tokio::spawn(async move {
        let mut tell = Some(tell);
        let mut last = String::new();
        // As the browser does: what was not begun, is under way still, or got no answer is asked for again, under the same UUID
        // and over another connection.
        for _ in 0..TRIES_MAX {
            match send_once(to, from, number, &mut tell).await {
                Ok(answer) if is_final(&answer) => return Ok((answer.status, answer.body)),
                Ok(answer) => last = answer.status.to_string(),
                Err(error) => last = format!("{error:#}"),
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
        bail!("no outcome after {TRIES_MAX} tries; the last: {last}")
    });
    Send { task, written }
}

/// Whether the answer will never be another: "still pending" is told with 200 too, since a browser is no program.
fn is_final(answer: &Answer) -> bool {
    let pending = answer.body.windows(PENDING.len()).any(|part| part == PENDING);
    !matches!(answer.status, 409 | 429 | 503) && !pending
}

/// Sends once, and says so when the request is on its way: then the next may be sent, and this one given up.
async fn send_once(
    to: SocketAddr,
    from: IpAddr,
    number: i64,
    tell: &mut Option<tokio::sync::oneshot::Sender<()>>,
) -> anyhow::Result<Answer> {
    let place = CONNECTING.acquire().await?;
    let mut connection = Connection::open(to, Some(from)).await?;
    drop(place);
    let mut sending = std::pin::pin!(connection.post("/rpc/pay", orders::pay_body(number)));
    let early = futures::poll!(&mut sending);
    tokio::task::yield_now().await;
    REQUESTS.fetch_add(1, Ordering::Relaxed);
    if let Some(tell) = tell.take() {
        // Nobody listens where the payment was given up.
        let _ = tell.send(());
    }
    match early {
        Poll::Ready(answer) => answer,
        Poll::Pending => sending.await,
    }
}

/// Until the request of each is on its way.
async fn until_all_are_sent(sends: &[Send]) {
    for send in sends {
        while !send.task.is_finished() && !send.written.is_terminated() && send.written.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
