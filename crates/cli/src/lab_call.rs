//! Both ends of a call of the lab: frames of audio and video as datagrams with a deadline, the same
//! as in the simulator (`testkit::call::traffic`), over real paths. Without tokens and proxy protocol,
//! so only for the lab's namespaces.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use lab::CallOutcome;
use mendpath::{ClientConfig, Connection, DatagramOptions, Endpoint, Incoming, PathOptions};
use netsim::Seed;
use serde::{Deserialize, Serialize};
use testkit::call::traffic::{Arrivals, Frame, Name, Protection, Sent, Traffic, Verdict};
use tokio::time::{Instant, sleep_until, timeout};

use crate::{
    args::{AppProtection, CallArgs, RelayArgs},
    console::print,
    failure::{Failure, io_reason},
    identity::{CERTIFICATE_NAME, Identity},
    lab_end::{self, choice},
    protocol::CloseCode,
    server::Tally,
};

/// Without a packet for this long, a connection is given up.
const IDLE: Duration = Duration::from_secs(30);
/// How long the sender waits after the last frame, until it is known what became of it.
const SETTLE: Duration = Duration::from_secs(3);
/// How long the other paths may take to be there; without them the call begins with those that are.
const PATHS: Duration = Duration::from_secs(5);
/// Bytes of a request, and of the books of a call of an hour.
const REQUEST: usize = 1_000;
const BOOKS: usize = 64 << 20;

/// What the receiver asks for.
#[derive(Serialize, Deserialize)]
struct Request {
    time_ns: u64,
    deadline_ns: u64,
    seed: u64,
}

/// What the sender remembers.
#[derive(Default, Serialize, Deserialize)]
struct Books {
    /// Name, time on the monotonic clock in ns, and how many datagrams are enough.
    frames: Vec<([u8; 5], u64, usize)>,
    media_bytes: u64,
    datagrams: u64,
    in_time: u64,
    mended: u64,
    late: u64,
    expired: u64,
}

/// Makes a call with whoever asks; never returns but with a failure.
///
/// # Errors
/// When it cannot listen.
pub async fn server(
    listen: SocketAddr,
    admin: Option<SocketAddr>,
    protection: AppProtection,
    args: &RelayArgs,
) -> Result<(), Failure> {
    let (endpoint, tally) = lab_end::listen(listen, admin, args, IDLE).await?;
    let protection = match protection {
        AppProtection::Scheme => Protection::Scheme(args.recovery),
        AppProtection::Copies => Protection::Copies,
        AppProtection::Fec => Protection::Fec,
    };
    print("listening\n")?;
    // The lab makes one call at a time.
    while let Some(incoming) = endpoint.accept().await {
        // What goes wrong shows at the receiver's end.
        let _ = call(incoming, protection, &tally).await;
    }
    Err(lab_end::closed())
}

async fn call(incoming: Incoming, protection: Protection, tally: &Arc<Tally>) -> Option<()> {
    let connection = incoming.await.ok()?;
    let _entry = tally.enter(&connection, None, &Arc::from("lab"));
    let (mut send, mut receive) = connection.accept_bi().await.ok()?;
    let request: Request = serde_json::from_slice(&receive.read_to_end(REQUEST).await.ok()?).ok()?;
    let traffic = Traffic::new(Seed(request.seed), protection);
    let books = talk(&connection, traffic, &request).await;
    send.write_all(&serde_json::to_vec(&books).ok()?).await.ok()?;
    send.finish().ok()?;
    connection.closed().await;
    Some(())
}

/// Sends frame after frame, each when its time has come, and waits for what becomes of the last.
async fn talk(connection: &Connection, mut traffic: Traffic, request: &Request) -> Books {
    let start = Instant::now();
    let mut books = Books::default();
    while traffic.next_at().as_nanos() < request.time_ns {
        sleep_until(start + Duration::from(traffic.next_at())).await;
        let Frame { name, bytes, needed, datagrams, priority, .. } = traffic.take();
        books.frames.push((name.to_bytes(), monotonic().as_nanos(), needed));
        books.media_bytes += bytes as u64;
        let deadline = Duration::from_nanos(request.deadline_ns);
        let options = DatagramOptions::new().within(deadline).priority(priority);
        for data in datagrams {
            // A full queue or a path that is too narrow loses it, which the frame shows.
            let _ = connection.send_datagram_with(data.into(), options);
        }
    }
    sleep_until(start + Duration::from(traffic.next_at()) + SETTLE).await;
    let known = connection.stats().timed;
    Books {
        datagrams: known.sent,
        in_time: known.in_time,
        mended: known.mended,
        late: known.late,
        expired: known.expired,
        ..books
    }
}

/// Asks for a call over a path from each local address, and writes down what came of it.
///
/// # Errors
/// When there is no call, or its result cannot be written.
pub async fn client(call: &CallArgs, args: &RelayArgs) -> Result<(), Failure> {
    let failed = |wrong: &dyn std::fmt::Display| Failure::new("cannot make a call", wrong, "Report this");
    let identity = Identity::load_or_create(&args.dir)?;
    let config = ClientConfig::with_pinned_key(identity.server.pin()).transport(choice(args).config(IDLE, 0));
    let endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0))).map_err(|error| failed(&error))?;
    let Some((first, others)) = call.from.split_first() else { return Err(failed(&"there is no path")) };
    let path = PathOptions::new().local_ip(*first);
    let connecting = endpoint.connect_via(&config, &path, call.server, CERTIFICATE_NAME);
    let connection = connecting.map_err(|error| failed(&error))?.await.map_err(|error| failed(&error))?;
    for address in others {
        let path = PathOptions::new().local_ip(*address).remote(call.server);
        // A path that is missing shows in the paths' bytes.
        let _ = timeout(PATHS, connection.add_path(path)).await;
    }
    let (mut send, mut receive) = connection.open_bi().await.map_err(|error| failed(&error))?;
    print("begins\n")?;
    let request =
        Request { time_ns: call.time.as_nanos(), deadline_ns: call.deadline.as_nanos(), seed: call.seed };
    let request = serde_json::to_vec(&request).map_err(|error| failed(&error))?;
    send.write_all(&request).await.map_err(|error| failed(&error))?;
    send.finish().map_err(|error| failed(&error))?;
    let mut arrivals = Arrivals::new(call.time);
    let books = receive.read_to_end(BOOKS);
    tokio::pin!(books);
    let books = loop {
        tokio::select! {
            data = connection.read_datagram() => {
                let data = data.map_err(|error| failed(&error))?;
                arrivals.read(&data, monotonic());
            }
            books = &mut books => break books.map_err(|error| failed(&error))?,
        }
    };
    connection.close(CloseCode::Done.into(), b"");
    let books = serde_json::from_slice(&books).map_err(|error| failed(&error))?;
    let outcome = judge(&books, &arrivals, call.deadline, &cuts(&call.cuts));
    let text = serde_json::to_string(&outcome).map_err(|error| failed(&error))?;
    tokio::fs::write(&call.result, text).await.map_err(|error| failed(&io_reason(&error)))
}

/// When a path was cut, in ns; nothing if it never was.
fn cuts(file: &Path) -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let pair = |line: &str| {
        let (from, until) = line.split_once(' ')?;
        Some((from.parse().ok()?, until.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

fn judge(books: &Books, arrivals: &Arrivals, deadline: units::Duration, cuts: &[(u64, u64)]) -> CallOutcome {
    let sent = books.frames.iter().filter_map(|(name, at, needed)| {
        let while_cut = cuts.iter().any(|(from, until)| (from..until).contains(&at));
        Some(Sent {
            name: Name::from_bytes(*name)?,
            at: units::Instant::from_nanos(*at),
            needed: *needed,
            while_cut,
        })
    });
    let Verdict { frames, audio, while_cut, .. } = Verdict::of(&sent.collect::<Vec<_>>(), arrivals, deadline);
    CallOutcome {
        frames: frames.all,
        frames_in_time: frames.in_time,
        audio: audio.all,
        audio_in_time: audio.in_time,
        while_cut: while_cut.all,
        while_cut_in_time: while_cut.in_time,
        media_bytes: books.media_bytes,
        datagrams: books.datagrams,
        datagrams_in_time: books.in_time,
        datagrams_mended: books.mended,
        datagrams_late: books.late,
        datagrams_expired: books.expired,
    }
}

/// The clock that both ends share: that of the machine.
fn monotonic() -> units::Instant {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let nanos =
        u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0);
    units::Instant::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_judged_by_the_common_clock_and_the_cuts() {
        let mut traffic = Traffic::new(Seed(1), Protection::Copies);
        let mut arrivals = Arrivals::new(units::Duration::from_secs(1));
        let mut books = Books::default();
        for n in 0..4_u64 {
            let frame = traffic.take();
            let at = 1_000_000_000 * n;
            books.frames.push((frame.name.to_bytes(), at, frame.needed));
            // The n-th frame takes n times 60 ms.
            for data in &frame.datagrams {
                arrivals.read(data, units::Instant::from_nanos(at + n * 60_000_000));
            }
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "500000000 2500000000\nno times\n2900000000 3100000000\n").unwrap();
        let cuts = cuts(file.path());
        assert_eq!(cuts, [(500_000_000, 2_500_000_000), (2_900_000_000, 3_100_000_000)]);
        let outcome = judge(&books, &arrivals, units::Duration::from_millis(150), &cuts);
        assert_eq!((outcome.frames, outcome.frames_in_time), (4, 3));
        assert_eq!((outcome.while_cut, outcome.while_cut_in_time), (3, 2));
    }
}
