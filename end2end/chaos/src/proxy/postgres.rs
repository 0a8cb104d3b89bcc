//! Reads Postgres's frontend and backend protocol along: frames of a type byte and a length, after one start-up packet.
//!
//! A client prepares a statement once for each connection (Parse) and later names it only (Bind), so each connection remembers
//! what its names stand for. A message is the batch of frames up to a Sync; its answer is everything up to "ready for query".

use std::{collections::HashMap, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader, WriteHalf, split},
    net::TcpStream,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use super::Stream;
use crate::gate::{Fate, Gate, Message, Moment};

/// Longest frame that is read; ours are a few kilobytes.
const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How one direction ended.
enum End {
    /// Its sender is gone; what it had sent is still answered.
    SenderGone,
    /// A message was lost, or the receiver is gone.
    Lost,
}

pub(super) async fn pass(client: TcpStream, server: Box<dyn Stream>, gate: Gate) {
    let (from_client, to_client) = split(client);
    let (from_server, to_server) = split(server);
    let (asked, answers) = unbounded_channel();
    let mut asking = std::pin::pin!(ask(BufReader::new(from_client), to_server, &gate, asked));
    let mut answering = std::pin::pin!(answer(BufReader::new(from_server), to_client, &gate, answers));
    tokio::select! {
        end = &mut asking => match end {
            End::SenderGone => answering.await,
            End::Lost => {}
        },
        () = &mut answering => {}
    }
}

/// From the client to the server.
async fn ask(
    mut client: impl AsyncRead + Unpin,
    mut server: WriteHalf<Box<dyn Stream>>,
    gate: &Gate,
    asked: UnboundedSender<Option<Message>>,
) -> End {
    let Some(start) = start_up(&mut client).await else { return End::SenderGone };
    if server.write_all(&start).await.is_err() {
        return End::Lost;
    }
    let mut statements = HashMap::new();
    let mut batch = Batch::default();
    while let Some(frame) = frame(&mut client).await {
        let (ends, is_answered) = batch.take(&frame, &mut statements);
        if !ends {
            continue;
        }
        let Batch { frames, message, sql, .. } = std::mem::take(&mut batch);
        if is_answered {
            if let Some(message) = message
                && gate.pass(message, Moment::Sent).await == Fate::Lose
            {
                return End::Lost;
            }
            // The other direction may have ended with the server.
            let _ = asked.send(message);
        }
        let struck = sql.and_then(|sql| gate.strikes().take(&sql)).map(|code| failing(&code));
        if server.write_all(&struck.unwrap_or(frames)).await.is_err() {
            return End::Lost;
        }
    }
    // As when the client closes: Postgres does what it was asked, and then ends.
    let _ = server.shutdown().await;
    End::SenderGone
}

/// From the server to the client.
async fn answer(
    mut server: impl AsyncRead + Unpin,
    mut client: WriteHalf<TcpStream>,
    gate: &Gate,
    mut asked: UnboundedReceiver<Option<Message>>,
) {
    let (mut frames, mut started) = (Vec::new(), false);
    while let Some(frame) = frame(&mut server).await {
        let is_ready = frame[0] == b'Z';
        frames.extend(frame);
        if started && !is_ready {
            continue;
        }
        let message = if started { asked.recv().await.flatten() } else { None };
        if let Some(message) = message
            && gate.pass(message, Moment::Answered).await == Fate::Lose
        {
            return;
        }
        started |= is_ready;
        // A client that is gone changes nothing for the server: what it asked is executed, and counted.
        let _ = client.write_all(&frames).await;
        frames.clear();
        if let Some(message) = message {
            gate.pass(message, Moment::Heard).await;
        }
    }
    // The server has ended; what it said last may be why.
    let _ = client.write_all(&frames).await;
}

/// The frames of one message, and what it is.
#[derive(Default)]
struct Batch {
    frames: Vec<u8>,
    message: Option<Message>,
    /// The statement, if it was prepared before: the shop's are, the driver's own are not.
    sql: Option<Arc<str>>,
    bound: Option<Statement>,
}

/// A prepared statement, with one blank between words.
#[derive(Clone)]
struct Statement {
    message: Message,
    sql: Arc<str>,
}

impl Batch {
    /// Adds a frame. Says whether the batch ends with it, and whether an answer follows up to "ready for query".
    fn take(&mut self, frame: &[u8], statements: &mut HashMap<Vec<u8>, Statement>) -> (bool, bool) {
        self.frames.extend(frame);
        let body = &frame[5..];
        match frame[0] {
            b'P' => {
                let (name, rest) = text(body);
                let sql = words(text(rest).0);
                statements.insert(name.to_vec(), Statement { message: kind(&sql), sql: sql.into() });
                (false, false)
            }
            b'B' => {
                let (_portal, rest) = text(body);
                self.bound = statements.get(text(rest).0).cloned();
                (false, false)
            }
            b'E' => {
                if let Some(Statement { message, sql }) = self.bound.take() {
                    (self.message, self.sql) = (Some(message), Some(sql));
                }
                (false, false)
            }
            b'Q' => {
                self.message = Some(kind(&words(text(body).0)));
                (true, true)
            }
            b'S' => (true, true),
            b'D' | b'C' => (false, false),
            // Flush, passwords, the end: nothing that is answered by "ready for query".
            _ => (true, false),
        }
    }
}

/// What a statement does, by what no other statement of the shop says.
fn kind(sql: &str) -> Message {
    let signs = [
        ("insert into intents (", Message::Reserve),
        ("delete from intents", Message::Release),
        ("set state = 'succeeded'", Message::Succeed),
        ("set state = 'failed'", Message::Fail),
        ("set state = 'action_required'", Message::WaitForBank),
        ("else 'unknown' end", Message::Rest),
        ("for update skip locked", Message::Sweep),
        ("set fence = nextval('fences')", Message::Claim),
        ("'order_paid_late'", Message::BookLate),
        ("insert into inbox_events", Message::Keep),
    ];
    signs.iter().find(|(sign, _)| sql.contains(sign)).map_or(Message::OtherStatement, |(_, message)| *message)
}

/// The words of a statement, however it is laid out.
fn words(sql: &[u8]) -> String {
    String::from_utf8_lossy(sql).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is asked instead of a statement that is to fail: the server itself answers with the error, and is then ready again.
fn failing(code: &str) -> Vec<u8> {
    let sql = format!("do $$ begin raise exception using errcode = '{code}', message = 'struck'; end $$\0");
    let length = u32::try_from(sql.len() + 4).unwrap_or_default();
    [b"Q", &length.to_be_bytes()[..], sql.as_bytes()].concat()
}

/// A text that ends with a zero byte, and what comes after it.
fn text(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    (&bytes[..end], bytes.get(end + 1..).unwrap_or_default())
}

/// The packet in front of all frames, which has no type.
async fn start_up(from: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let length = from.read_u32().await.ok()?;
    rest(from, length.to_be_bytes().to_vec(), length).await
}

/// The next frame, whole; `None` at the end of the connection.
async fn frame(from: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut frame = vec![from.read_u8().await.ok()?];
    let length = from.read_u32().await.ok()?;
    frame.extend(length.to_be_bytes());
    rest(from, frame, length).await
}

/// Reads what a length, which counts itself, says is still to come.
async fn rest(from: &mut (impl AsyncRead + Unpin), mut frame: Vec<u8>, length: u32) -> Option<Vec<u8>> {
    let length = usize::try_from(length).ok()?.checked_sub(4).filter(|length| *length <= FRAME_BYTES_MAX)?;
    let start = frame.len();
    frame.resize(start + length, 0);
    from.read_exact(&mut frame[start..]).await.ok()?;
    Some(frame)
}
