//! A client's schedule: when it asks for which file, and when each was asked for and answered. Nothing here waits: a
//! client asks what is due, and tells what came.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Result;
#[cfg(feature = "tokio")]
use crate::{Url, download};

/// Where the times are written.
const REQUESTS: &str = "/logs/requests.csv";

/// One request of a schedule.
#[derive(Debug, Default)]
struct Request {
    /// It is not made before this time, counted from the beginning of the schedule.
    at: Duration,
    /// How long after the last of those before it.
    wait: Duration,
    after: Vec<usize>,
    /// As RFC 9218 writes it; empty where none is sent.
    priority: String,
    asked: Option<SystemTime>,
    first_byte: Option<SystemTime>,
    complete: Option<(Instant, SystemTime)>,
}

/// The requests of a client, by their numbers.
#[derive(Debug)]
pub struct Schedule {
    requests: Vec<Request>,
    begun: Instant,
}

/// What a client is to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask for the file of this number.
    Ask(usize),
    /// Wait for an answer, or until this time.
    Wait(Option<Instant>),
    /// All is answered.
    Over,
}

impl Schedule {
    /// The schedule of the environment, SCHEDULE=AT,WAIT,AFTER,PRIORITY[;…], an entry for each of so many URLs.
    pub fn read(count: usize) -> Result<Option<Self>> {
        match std::env::var("SCHEDULE") {
            Ok(text) if !text.is_empty() => Self::parse(&text, count).map(Some),
            _ => Ok(None),
        }
    }

    fn parse(text: &str, count: usize) -> Result<Self> {
        let entries: Vec<_> = text.split(';').collect();
        if entries.len() != count {
            return Err(format!("SCHEDULE: {} entries for {count} URLs", entries.len()).into());
        }
        let requests = entries.iter().map(|entry| {
            Request::parse(entry, count).ok_or_else(|| format!("SCHEDULE: {entry:?} is not AT,WAIT,AFTER,PRIORITY"))
        });
        Ok(Self { requests: requests.collect::<std::result::Result<_, _>>()?, begun: Instant::now() })
    }

    /// To be called at the end of the handshake, from which times count.
    pub fn begin(&mut self, now: Instant) {
        self.begun = now;
    }

    /// The first of the requests that are due, or what there is to wait for.
    pub fn next(&self, now: Instant) -> Next {
        let mut earliest: Option<Instant> = None;
        for (number, request) in self.requests.iter().enumerate().filter(|(_, request)| request.asked.is_none()) {
            match self.due(request) {
                Some(due) if due <= now => return Next::Ask(number),
                Some(due) => earliest = Some(earliest.map_or(due, |other| other.min(due))),
                None => (),
            }
        }
        match earliest {
            None if self.requests.iter().all(|request| request.complete.is_some()) => Next::Over,
            earliest => Next::Wait(earliest),
        }
    }

    /// When a request is due; none while one before it is not answered.
    fn due(&self, request: &Request) -> Option<Instant> {
        let mut due = self.begun + request.at;
        for number in &request.after {
            let (complete, _) = self.requests[*number].complete?;
            due = due.max(complete + request.wait);
        }
        Some(due)
    }

    /// The priority that goes with a request, if any.
    pub fn priority(&self, number: usize) -> Option<&str> {
        Some(self.requests[number].priority.as_str()).filter(|priority| !priority.is_empty())
    }

    /// A request is being made.
    pub fn asked(&mut self, number: usize) {
        self.requests[number].asked = Some(SystemTime::now());
    }

    /// A part of a response has come.
    pub fn received(&mut self, number: usize) {
        self.requests[number].first_byte.get_or_insert_with(SystemTime::now);
    }

    /// A response is whole.
    pub fn completed(&mut self, number: usize) {
        self.requests[number].complete = Some((Instant::now(), SystemTime::now()));
    }

    /// Writes down the times.
    pub fn write(&self) -> Result<()> {
        let mut text = String::from("request,asked_ns,first_byte_ns,complete_ns\n");
        for (number, request) in self.requests.iter().enumerate() {
            let complete = request.complete.map(|(_, at)| at);
            let times = [request.asked, request.first_byte, complete].map(nanoseconds);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{number},{}", times.join(","));
        }
        if let Some(folder) = Path::new(REQUESTS).parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(REQUESTS, text).map_err(|error| format!("{REQUESTS}: {error}").into())
    }
}

impl Request {
    fn parse(entry: &str, count: usize) -> Option<Self> {
        // A priority may have a comma.
        let mut fields = entry.splitn(4, ',');
        let mut field = || fields.next();
        let (at, wait, after, priority) = (field()?, field()?, field()?, field()?);
        let seconds = |text: &str| Duration::try_from_secs_f64(text.parse().ok()?).ok();
        let mut numbers = Vec::new();
        for part in after.split('+').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
            if last >= count {
                return None;
            }
            numbers.extend(first..=last);
        }
        let priority = priority.to_owned();
        Some(Self { at: seconds(at)?, wait: seconds(wait)?, after: numbers, priority, ..Self::default() })
    }
}

fn nanoseconds(at: Option<SystemTime>) -> String {
    at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map_or_else(String::new, |since| since.as_nanos().to_string())
}

/// Follows a schedule, and writes down the times. `fetch` is given a URL, its priority, and whom to tell of each part
/// that comes.
#[cfg(feature = "tokio")]
pub async fn follow<Fetch>(
    mut schedule: Schedule,
    urls: &[Url],
    fetch: impl Fn(Url, Option<String>, Box<dyn FnMut() + Send>) -> Fetch,
) -> Result<()>
where
    Fetch: Future<Output = Result<()>> + Send + 'static,
{
    let (tell, mut news) = tokio::sync::mpsc::unbounded_channel();
    let mut fetches = tokio::task::JoinSet::new();
    let mut failures = Vec::new();
    schedule.begin(Instant::now());
    loop {
        match schedule.next(Instant::now()) {
            Next::Ask(number) => {
                schedule.asked(number);
                let tell = tell.clone();
                // Nobody listens once the schedule is over.
                let heard = Box::new(move || {
                    let _ = tell.send(number);
                });
                let (url, priority) = (urls[number].clone(), schedule.priority(number).map(str::to_owned));
                let fetched = fetch(url.clone(), priority, heard);
                fetches.spawn(async move { (number, fetched.await.map_err(|error| download::failed(&url, error))) });
            }
            // What comes after a failure is never asked for.
            Next::Over => break,
            Next::Wait(None) if fetches.is_empty() => break,
            Next::Wait(due) => tokio::select! {
                biased;
                Some(number) = news.recv() => schedule.received(number),
                Some(ended) = fetches.join_next() => match ended {
                    Ok((number, Ok(()))) => schedule.completed(number),
                    Ok((_, Err(failure))) => failures.push(failure),
                    Err(error) => failures.push(error.to_string()),
                },
                woken = until(due) => woken?,
            },
        }
    }
    schedule.write()?;
    if failures.is_empty() && schedule.next(Instant::now()) != Next::Over {
        return Err("SCHEDULE: some requests come after themselves".into());
    }
    download::outcome(failures.into_iter().map(Err))
}

#[cfg(feature = "tokio")]
async fn until(due: Option<Instant>) -> Result<()> {
    match due {
        Some(due) => crate::alarm::until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_in_their_order_and_after_those_before_them() {
        let mut schedule = Schedule::parse("0,0,,u=0;0,0,0,u=1;0,0.05,0-1,u=5,i;2,0,,", 4).unwrap();
        let now = Instant::now();
        schedule.begin(now);
        assert_eq!(schedule.next(now), Next::Ask(0));
        schedule.asked(0);
        // The last waits for its time, the others for the first.
        assert_eq!(schedule.next(now), Next::Wait(Some(now + Duration::from_secs(2))));
        schedule.completed(0);
        let later = Instant::now();
        assert_eq!(schedule.next(later), Next::Ask(1));
        schedule.asked(1);
        schedule.completed(1);
        assert!(matches!(schedule.next(now), Next::Wait(Some(due)) if due > later + Duration::from_millis(49)));
        assert_eq!(schedule.priority(2), Some("u=5,i"));
        assert_eq!(schedule.priority(3), None);
        let end = now + Duration::from_secs(3);
        assert_eq!(schedule.next(end), Next::Ask(2));
        schedule.asked(2);
        assert_eq!(schedule.next(end), Next::Ask(3));
        schedule.asked(3);
        assert_eq!(schedule.next(end), Next::Wait(None));
        schedule.completed(2);
        schedule.completed(3);
        assert_eq!(schedule.next(end), Next::Over);
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for text in ["", "0,0,", "a,0,,", "-1,0,,", "NaN,0,,", "0,0,1,", "0,0,0-1,", "0,0,x,", "0,0,,;0,0,,"] {
            assert!(Schedule::parse(text, 1).is_err(), "{text:?} was taken");
        }
    }
}
