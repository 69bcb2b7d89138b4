//! Lines on their way to a file, or to a reader that may not come.

use std::{
    io::{self, Write},
    sync::{Arc, Once},
    thread,
};

use tokio::sync::{mpsc, oneshot};
use tracing::warn;

use crate::{console::say, failure::io_reason};

/// Lines that wait to be written. More are dropped: no request waits for its line.
const QUEUE: usize = 4_096;

/// Hands lines to a thread that may wait.
#[derive(Clone)]
pub(super) struct Writer {
    to: mpsc::Sender<Message>,
    /// Whether it was said that lines are dropped.
    warned: Arc<Once>,
}

enum Message {
    Line(String),
    /// Everything before is to be written, and then this is told.
    Flush(oneshot::Sender<()>),
    /// What is written to is to be opened again.
    Reopen,
}

fn tell(error: &io::Error) {
    say(format_args!("cannot open the access log again: {}; the old file goes on", io_reason(error)));
}

fn tell_of_loss(error: &io::Error) {
    say(format_args!("cannot write the access log: {}; lines are lost", io_reason(error)));
}

impl Writer {
    /// Writes to what this opens until the last clone is dropped, and tells `lost` of each line that
    /// cannot be written.
    ///
    /// # Errors
    /// If it cannot be opened, or there can be no thread for it.
    pub(super) fn new(
        open: impl Fn() -> io::Result<Box<dyn Write + Send>> + Send + 'static,
        lost: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let (to, from) = mpsc::channel(QUEUE);
        let output = Output { out: open()?, open, lost, told: false };
        thread::Builder::new().name("access-log".to_owned()).spawn(move || output.run(from))?;
        Ok(Self { to, warned: Arc::new(Once::new()) })
    }

    /// Writes a line sometime; false where it is dropped since too many wait.
    pub(super) fn write(&self, line: String) -> bool {
        let is_taken = self.to.try_send(Message::Line(line)).is_ok();
        if !is_taken {
            self.warned.call_once(|| warn!("lines of the access log are dropped: nobody takes them"));
        }
        is_taken
    }

    /// Has what is written to opened again for the lines from here on. Waits while too many do.
    pub(super) async fn reopen(&self) {
        let _ = self.to.send(Message::Reopen).await;
    }

    /// Waits until everything is written.
    pub(super) async fn flush(&self) {
        let (done, written) = oneshot::channel();
        if self.to.send(Message::Flush(done)).await.is_ok() {
            let _ = written.await;
        }
    }
}

/// What the thread has that writes.
struct Output<O, L> {
    out: Box<dyn Write + Send>,
    open: O,
    /// Is told of each line that cannot be written.
    lost: L,
    /// Whether it was said that lines are lost.
    told: bool,
}

impl<O, L> Output<O, L>
where
    O: Fn() -> io::Result<Box<dyn Write + Send>>,
    L: Fn(),
{
    /// Does what the messages say until nobody is left who could send one.
    fn run(mut self, mut from: mpsc::Receiver<Message>) {
        while let Some(message) = from.blocking_recv() {
            match message {
                Message::Line(line) => self.write(&line),
                Message::Flush(done) => {
                    if self.out.flush().is_ok() {
                        let _ = done.send(());
                    }
                }
                Message::Reopen => self.reopen(),
            }
            if from.is_empty() {
                let _ = self.out.flush();
            }
        }
    }

    /// A full disk is no reason not to answer.
    fn write(&mut self, line: &str) {
        let Err(error) = self.out.write_all(line.as_bytes()) else { return };
        (self.lost)();
        if !std::mem::replace(&mut self.told, true) {
            tell_of_loss(&error);
        }
    }

    fn reopen(&mut self) {
        match (self.open)() {
            Ok(opened) => {
                (self.out, self.told) = (opened, false);
                say("opened the access log again");
            }
            Err(error) => tell(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::Receiver,
    };

    use super::*;

    /// A pipe that nobody reads before it is told to.
    struct Pipe {
        opened: Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Once it is open it stays so.
            let _ = self.opened.recv();
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A disk without room.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn lines_that_cannot_be_written_are_counted() {
        let lost = Arc::<AtomicUsize>::default();
        let counted = lost.clone();
        let count = move || _ = counted.fetch_add(1, Relaxed);
        let writer = Writer::new(|| Ok(Box::new(Full) as _), count).unwrap();
        for _ in 0..3 {
            assert!(writer.write("line\n".to_owned()));
        }
        writer.flush().await;
        assert_eq!(lost.load(Relaxed), 3);
    }

    #[tokio::test]
    async fn nobody_waits_for_a_reader_and_what_is_taken_is_written() {
        let (open, opened) = std::sync::mpsc::channel();
        let written = Arc::default();
        let pipe = Mutex::new(Some(Pipe { opened, written: Arc::clone(&written) }));
        let give = move || Ok(Box::new(pipe.lock().unwrap().take().expect("opened once")) as _);
        let writer = Writer::new(give, || ()).unwrap();
        let taken = (0..2 * QUEUE).filter(|line| writer.write(format!("{line}\n"))).count();
        // One may be on its way into the pipe.
        assert!((QUEUE..=QUEUE + 1).contains(&taken), "{taken}");
        drop(open);
        writer.flush().await;
        let written = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        assert_eq!(written.lines().count(), taken);
        assert!(written.starts_with("0\n1\n2\n"));
    }
}
