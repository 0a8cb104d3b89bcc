//! A client that writes and reads bytes, for what no HTTP client would send.

use std::{
    io,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

/// How long a test waits for an answer or an end that must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// One connection.
pub struct Raw {
    pub stream: TcpStream,
    read: Vec<u8>,
}

/// One answer, its head as text.
#[derive(Debug)]
pub struct Said {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Said {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().filter_map(|line| line.split_once(": ")).find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

impl Raw {
    /// Connects to an address as `House` gives them.
    pub async fn to(url: &str) -> Self {
        Self::try_to(url).await.unwrap()
    }

    pub async fn try_to(url: &str) -> io::Result<Self> {
        let address = url.strip_prefix("http://").expect("a plain address");
        Ok(Self { stream: TcpStream::connect(address).await?, read: Vec::new() })
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self
    }

    /// The next answer, which must have a `Content-Length`.
    pub async fn answer(&mut self) -> Said {
        let end = loop {
            if let Some(end) = find(&self.read, b"\r\n\r\n") {
                break end;
            }
            assert!(self.more().await > 0, "closed without an answer: {:?}", String::from_utf8_lossy(&self.read));
        };
        let head = String::from_utf8_lossy(&self.read[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let said = Said { status, head, body: String::new() };
        let length: usize = said.header("content-length").map_or(0, |length| length.parse().expect("a length"));
        while self.read.len() < end + 4 + length {
            assert!(self.more().await > 0, "closed in the middle of an answer");
        }
        let body = String::from_utf8_lossy(&self.read[end + 4..end + 4 + length]).into_owned();
        self.read.drain(..end + 4 + length);
        Said { body, ..said }
    }

    /// Waits until the server has closed the connection; gives what it still said.
    pub async fn end(&mut self) -> String {
        while self.more().await > 0 {}
        String::from_utf8_lossy(&self.read).into_owned()
    }

    /// Whether the server has closed the connection by now.
    pub fn has_ended(&mut self) -> bool {
        let mut byte = [0_u8; 1];
        match self.stream.try_read(&mut byte) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// Reads once; 0 is the end, also where the end is a reset.
    async fn more(&mut self) -> usize {
        let since = Instant::now();
        let read = timeout(PATIENCE, self.stream.read_buf(&mut self.read)).await;
        read.unwrap_or_else(|_| panic!("neither bytes nor an end after {:?}", since.elapsed())).unwrap_or(0)
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
