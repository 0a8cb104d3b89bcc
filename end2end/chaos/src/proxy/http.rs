//! Reads HTTP/1.1 along: one call after the other on each connection, bodies with a length.

use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use super::Stream;
use crate::gate::{Fate, Gate, Message, Moment};

/// Longest head, and longest body, that is read.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

pub(super) async fn pass(client: TcpStream, server: Box<dyn Stream>, gate: Gate) {
    let (mut client, mut server) = (BufReader::new(client), BufReader::new(server));
    loop {
        // Whoever ends an idle connection ends it for both.
        tokio::select! {
            asked = client.fill_buf() => if !asked.is_ok_and(|bytes| !bytes.is_empty()) { return },
            _ = server.fill_buf() => return,
        }
        let request = read(&mut client).await;
        if !request.whole {
            return;
        }
        let call = call(&request.bytes);
        if gate.pass(call, Moment::Sent).await == Fate::Lose || server.write_all(&request.bytes).await.is_err() {
            return;
        }
        let answer = read(&mut server).await;
        if gate.pass(call, Moment::Answered).await == Fate::Lose {
            return;
        }
        let written = client.write_all(&answer.bytes).await;
        if written.is_err() || !answer.whole {
            drop(client);
            gate.pass(call, Moment::Heard).await;
            return;
        }
        gate.pass(call, Moment::Heard).await;
    }
}

/// A head and its body, as far as they came.
struct Read {
    bytes: Vec<u8>,
    whole: bool,
}

async fn read(from: &mut BufReader<impl AsyncRead + Unpin>) -> Read {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        match from.read_until(b'\n', &mut bytes).await {
            Ok(1..) if bytes.len() <= HEAD_BYTES_MAX => {}
            Ok(_) | Err(_) => return Read { bytes, whole: false },
        }
    }
    let mut left = length(&bytes).min(BODY_BYTES_MAX);
    while left > 0 {
        let mut part = vec![0; left.min(64 * 1024)];
        match from.read(&mut part).await {
            Ok(count @ 1..) => {
                bytes.extend(&part[..count]);
                left -= count;
            }
            Ok(0) | Err(_) => return Read { bytes, whole: false },
        }
    }
    Read { bytes, whole: true }
}

/// The body's length, 0 where there is none.
fn length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head);
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = lines.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next().and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

/// What a request to the provider does.
fn call(request: &[u8]) -> Message {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let Some(rest) = path.split('?').next().unwrap_or_default().strip_prefix("/v1/payment_intents") else {
        return Message::OtherCall;
    };
    match method {
        "POST" if rest.is_empty() => Message::Create,
        "POST" if rest.ends_with("/confirm") => Message::Confirm,
        "POST" if rest.ends_with("/cancel") => Message::Cancel,
        "GET" if !rest.is_empty() => Message::Retrieve,
        _ => Message::OtherCall,
    }
}
