//! What the kernel says of its own retransmissions: the tracepoints `tcp:tcp_retransmit_skb`, with
//! the stack of calls that led there, and `tcp:tcp_cong_state_set`.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

/// Why the kernel sent a packet again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reason {
    /// The retransmission timer (also that of a SYN or SYN/ACK).
    Timer,
    /// The tail loss probe's timer.
    Probe,
    /// An acknowledgement, in recovery.
    Fast,
    /// An acknowledgement, after the timer had given up the window.
    GoBackN,
}

/// One call of the kernel's for a retransmission.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// In ns of Unix time.
    pub at: u64,
    /// Ports of its sender and receiver.
    pub ports: (u16, u16),
    pub reason: Reason,
}

/// A trace of the kernel's, in an instance of its own.
pub struct Tracer(PathBuf);

const FILES: &str = "/sys/kernel/tracing";
const EVENTS: [&str; 3] = ["tcp_retransmit_skb", "tcp_retransmit_synack", "tcp_cong_state_set"];
/// Of `tcp_cong_state_set`: the state after a timeout (TCP_CA_Loss).
const LOSS: &str = "4";
/// Of fast recovery (TCP_CA_Recovery).
const RECOVERY: &str = "3";

impl Tracer {
    /// Starts.
    pub fn start() -> io::Result<Self> {
        let folder = PathBuf::from(FILES).join(format!("instances/mendpath-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let tracer = Self(folder);
        // Unix time without leap seconds: what captures are stamped with, as nobody sets the
        // difference.
        tracer.write("trace_clock", "tai")?;
        tracer.write("buffer_size_kb", "65536")?;
        tracer.write("events/tcp/tcp_retransmit_skb/trigger", "stacktrace")?;
        for event in EVENTS {
            tracer.write(&format!("events/tcp/{event}/enable"), "1")?;
        }
        Ok(tracer)
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        let file = self.0.join(file);
        fs::write(&file, text)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
    }

    /// Stops, and tells what there was; the kernel's own words go to `file`.
    pub fn finish(self, file: &Path) -> io::Result<Vec<Event>> {
        for event in EVENTS {
            self.write(&format!("events/tcp/{event}/enable"), "0")?;
        }
        let text = fs::read_to_string(self.0.join("trace"))?;
        fs::write(file, &text)?;
        Ok(read(&text))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.write("events/tcp/tcp_retransmit_skb/trigger", "!stacktrace");
        let _ = fs::remove_dir(&self.0);
    }
}

/// The events of a trace that was kept.
pub fn read_file(file: &Path) -> io::Result<Vec<Event>> {
    Ok(read(&fs::read_to_string(file)?))
}

/// The events of a trace as text.
fn read(text: &str) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    // After the timer a socket is in the state "loss" until what it gave up is acknowledged.
    let mut lossy: BTreeMap<(u16, u16), bool> = BTreeMap::new();
    // A stack follows its event on the same processor, perhaps after events of others.
    let mut latest: BTreeMap<&str, usize> = BTreeMap::new();
    let mut explained: Option<usize> = None;
    for line in text.lines() {
        if let Some(call) = line.trim_start().strip_prefix("=> ") {
            // The compiler may have made parts of a function, with a name behind a dot.
            let reason = match call.trim().split('.').next() {
                // What recovery sends, whatever is found further down the stack.
                Some("tcp_xmit_retransmit_queue") => {
                    explained = None;
                    continue;
                }
                Some("tcp_retransmit_timer") => Reason::Timer,
                Some("tcp_send_loss_probe") => Reason::Probe,
                _ => continue,
            };
            if let Some(event) = explained {
                events[event].reason = reason;
            }
            continue;
        }
        let processor = line.split_whitespace().find(|word| word.starts_with('[')).unwrap_or_default();
        if line.contains("<stack trace>") {
            explained = latest.remove(processor);
            continue;
        }
        let Some((at, what, ports)) = fields(line) else { continue };
        match what {
            "tcp_cong_state_set" => {
                // A retransmission that is lost in "loss" makes it "recovery" of the same packets.
                let state = value(line, "cong_state=");
                let still = state == Some(RECOVERY) && lossy.get(&ports) == Some(&true);
                lossy.insert(ports, state == Some(LOSS) || still);
            }
            "tcp_retransmit_skb" if value(line, "err=").is_none_or(|error| error == "0") => {
                let reason = if lossy.get(&ports) == Some(&true) { Reason::GoBackN } else { Reason::Fast };
                latest.insert(processor, events.len());
                events.push(Event { at, ports, reason });
            }
            "tcp_retransmit_synack" => events.push(Event { at, ports, reason: Reason::Timer }),
            _ => {}
        }
    }
    events.sort_by_key(|event| event.at);
    events
}

/// Time, name and ports of an event's line.
fn fields(line: &str) -> Option<(u64, &str, (u16, u16))> {
    let (head, _) = line.split_once(": tcp_")?;
    let (seconds, fraction) = head.rsplit(' ').next()?.split_once('.')?;
    let digits = 10u64.pow(9u32.checked_sub(u32::try_from(fraction.len()).ok()?)?);
    let at = seconds.parse::<u64>().ok()? * 1_000_000_000 + fraction.parse::<u64>().ok()? * digits;
    let what = line[head.len() + 2..].split(':').next()?;
    let port = |name: &str| value(line, name)?.parse().ok();
    Some((at, what, (port("sport=")?, port("dport=")?)))
}

fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_whitespace().find_map(|word| word.strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
# tracer: nop
          <idle>-0       [001] ..s2.  1795402000.000001: tcp_retransmit_skb: skbaddr=0 skaddr=0 family=AF_INET sport=80 dport=4000 saddr=10.0.0.1 state=TCP_ESTABLISHED err=0
          <idle>-0       [000] ..s2.  1795402000.000001: tcp_cong_state_set: family=AF_INET sport=80 dport=4009 saddr=10.0.0.1 cong_state=1
          <idle>-0       [001] ..s2.  1795402000.000002: <stack trace>
 => __tcp_retransmit_skb
 => tcp_retransmit_timer
          <idle>-0       [001] ..s2.  1795402000.000003: tcp_cong_state_set: family=AF_INET sport=80 dport=4000 saddr=10.0.0.1 cong_state=4
          <idle>-0       [001] ..s2.  1795402000.000004: tcp_retransmit_skb: skbaddr=0 skaddr=0 family=AF_INET sport=80 dport=4000 saddr=10.0.0.1 state=TCP_ESTABLISHED err=0
          <idle>-0       [001] ..s2.  1795402000.000005: <stack trace>
 => tcp_xmit_retransmit_queue
 => tcp_ack
          <idle>-0       [001] ..s2.  1795402000.000006: tcp_cong_state_set: family=AF_INET sport=80 dport=4000 saddr=10.0.0.1 cong_state=3
          <idle>-0       [001] ..s2.  1795402000.000007: tcp_retransmit_skb: skbaddr=0 skaddr=0 family=AF_INET sport=80 dport=4000 saddr=10.0.0.1 state=TCP_ESTABLISHED err=0
          <idle>-0       [001] ..s2.  1795402000.000008: tcp_cong_state_set: family=AF_INET sport=80 dport=4000 saddr=10.0.0.1 cong_state=0
          <idle>-0       [001] ..s2.  1795402000.000009: tcp_cong_state_set: family=AF_INET sport=80 dport=4000 saddr=10.0.0.1 cong_state=3
          <idle>-0       [001] ..s2.  1795402000.000010: tcp_retransmit_skb: skbaddr=0 skaddr=0 family=AF_INET sport=80 dport=4000 saddr=10.0.0.1 state=TCP_ESTABLISHED err=0
          <idle>-0       [001] ..s2.  1795402000.000011: tcp_retransmit_synack: family=AF_INET sport=80 dport=4001 saddr=10.0.0.1
";

    #[test]
    fn reasons_come_from_the_stack_and_the_state() {
        let events = read(TRACE);
        let reasons: Vec<Reason> = events.iter().map(|event| event.reason).collect();
        // Recovery right out of loss is of the same packets; out of good order it is another.
        use Reason::{Fast, GoBackN, Timer};
        assert_eq!(reasons, [Timer, GoBackN, GoBackN, Fast, Timer]);
        assert_eq!((events[0].at, events[4].ports), (1_795_402_000_000_001_000, (80, 4001)));
    }
}
