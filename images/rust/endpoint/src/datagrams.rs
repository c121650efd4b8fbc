//! Datagrams that a server sends at equal times, as media does (RFC 9221), and which of them came to a client.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Result;

/// Where a client writes which came, and when.
const LOG: &str = "/logs/datagrams.csv";
/// How long a server with nothing left to send leaves the last on their way before it closes the connection.
const FAREWELL: Duration = Duration::from_secs(1);
/// How much longer than the server sends a client waits for the end of the connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// A sequence number, and when it was sent (ns since the epoch), each of 8 bytes.
const HEAD: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagrams {
    every: Duration,
    /// In each group.
    packets: u64,
    /// Bytes of each.
    size: usize,
    /// Groups.
    count: u64,
}

impl Datagrams {
    /// Those of the environment, DATAGRAMS=EVERY,PACKETS,SIZE,COUNT, with EVERY in seconds.
    pub fn read() -> Result<Option<Self>> {
        match std::env::var("DATAGRAMS") {
            Ok(text) if !text.is_empty() => {
                let made = Self::parse(&text);
                made.map(Some).ok_or_else(|| format!("DATAGRAMS: {text:?} is not EVERY,PACKETS,SIZE,COUNT").into())
            }
            _ => Ok(None),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<_> = text.split(',').collect();
        let [every, packets, size, count] = fields.as_slice() else { return None };
        let made = Self {
            every: Duration::try_from_secs_f64(every.parse().ok()?).ok()?,
            packets: packets.parse().ok()?,
            size: size.parse().ok()?,
            count: count.parse().ok()?,
        };
        let possible = !made.every.is_zero() && made.packets > 0 && made.size >= HEAD && made.count > 0;
        possible.then_some(made)
    }

    fn group(&self, turn: u64) -> impl Iterator<Item = Vec<u8>> {
        let (first, size) = (turn * self.packets, self.size);
        (first..first + self.packets).map(move |sequence| {
            let mut data = vec![0; size];
            data[..8].copy_from_slice(&sequence.to_be_bytes());
            data[8..HEAD].copy_from_slice(&nanoseconds().to_be_bytes());
            data
        })
    }

    /// Sends them all, each group at its time, and returns once they are on their way.
    #[cfg(feature = "tokio")]
    pub async fn send(&self, mut send: impl FnMut(Vec<u8>) -> Result<()>) -> Result<()> {
        let begun = std::time::Instant::now();
        let groups = u32::try_from(self.count)?;
        for turn in 0..groups {
            crate::alarm::until(begun + turn * self.every).await?;
            for data in self.group(turn.into()) {
                send(data)?;
            }
        }
        crate::alarm::until(begun + groups * self.every + FAREWELL).await
    }

    /// The longest that a client waits from its handshake on.
    pub fn patience(&self) -> Duration {
        self.every.saturating_mul(u32::try_from(self.count).unwrap_or(u32::MAX)) + FAREWELL + PATIENCE
    }
}

fn nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Those that came.
#[derive(Debug, Default)]
pub struct Received {
    rows: String,
}

impl Received {
    /// Another one.
    pub fn add(&mut self, data: &[u8]) {
        let number =
            |from: usize| data.get(from..from + 8).and_then(|part| part.try_into().ok()).map(u64::from_be_bytes);
        if let (Some(sequence), Some(sent)) = (number(0), number(8)) {
            // Writing to a string cannot fail.
            let _ = writeln!(self.rows, "{sequence},{sent},{}", nanoseconds());
        }
    }

    /// Writes them down; an error where there is none.
    pub fn write(&self) -> Result<()> {
        let text = format!("sequence,sent_ns,received_ns\n{}", self.rows);
        std::fs::write(LOG, text).map_err(|error| format!("{LOG}: {error}"))?;
        if self.rows.is_empty() { Err("no datagram came".into()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_its_numbers_and_its_size() {
        let datagrams = Datagrams::parse("0.02,2,160,1000").unwrap();
        assert_eq!(datagrams.every, Duration::from_millis(20));
        let group: Vec<_> = datagrams.group(3).collect();
        assert_eq!(group.len(), 2);
        assert_eq!((group[0].len(), group[0][7], group[1][7]), (160, 6, 7));
        let mut received = Received::default();
        received.add(&group[1]);
        received.add(&[0; 15]);
        assert!(received.rows.starts_with("7,") && received.rows.lines().count() == 1);
        assert_eq!(datagrams.patience(), Duration::from_secs(26));
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["", "0.02,2,160", "0,2,160,1", "0.02,0,160,1", "0.02,2,15,1", "0.02,2,160,0", "a,2,160,1"] {
            assert_eq!(Datagrams::parse(text), None, "{text:?}");
        }
    }
}
