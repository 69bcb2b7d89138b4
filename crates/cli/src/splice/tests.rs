use std::sync::{Arc, Mutex};

use tokio::io::{self as tio, DuplexStream, duplex, split};

use super::*;

/// A half that remembers with which code it was given up.
struct Half<T>(T, Code);

/// One whose far end has ended like this.
struct Left<T>(Half<T>, FarEnd);

type Code = Arc<Mutex<Option<StreamCode>>>;

impl<T> Abort for Half<T> {
    fn abort(&mut self, code: StreamCode) {
        *self.1.lock().unwrap() = Some(code);
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Half<T> {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<T: AsyncRead + Unpin + Send> ReadPieces for Half<T> {
    async fn read_pieces(&mut self, pieces: &mut [Bytes]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < pieces.len().min(3) {
            let mut piece = [0; 7];
            let n = self.0.read(&mut piece).await?;
            pieces[filled] = Bytes::copy_from_slice(&piece[..n]);
            filled += usize::from(n > 0);
            if n < piece.len() {
                break;
            }
        }
        Ok(filled)
    }

    async fn far_end(&mut self) -> Option<FarEnd> {
        None
    }
}

impl<T: AsyncRead + Unpin + Send> ReadPieces for Left<T> {
    async fn read_pieces(&mut self, pieces: &mut [Bytes]) -> io::Result<usize> {
        self.0.read_pieces(pieces).await
    }

    async fn far_end(&mut self) -> Option<FarEnd> {
        Some(self.1)
    }
}

impl<T> Abort for Left<T> {
    fn abort(&mut self, code: StreamCode) {
        self.0.abort(code);
    }
}

/// One whose other end has broken off.
struct Broken<T>(Half<T>);

impl<T: AsyncRead + Unpin> AsyncRead for Broken<T> {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<T: Sync> Abort for Broken<T> {
    fn abort(&mut self, code: StreamCode) {
        self.0.abort(code);
    }

    async fn broken(&self) {}
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Half<T> {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        data: &[u8],
    ) -> std::task::Poll<io::Result<usize>> {
        std::pin::Pin::new(&mut self.0).poll_write(cx, data)
    }
    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        std::pin::Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// One whose other end takes no more.
struct Refused<T>(Half<T>);

impl<T: AsyncWrite + Unpin> AsyncWrite for Refused<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl<T> Abort for Refused<T> {
    fn abort(&mut self, code: StreamCode) {
        self.0.abort(code);
    }

    fn refused(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

type Halves = (Half<tio::ReadHalf<DuplexStream>>, Half<tio::WriteHalf<DuplexStream>>);

/// The far end, its halves for the splice, and the code with which they were given up.
fn side() -> (DuplexStream, Halves, Code) {
    let (near, far) = duplex(64);
    let (read, write) = split(near);
    let code = Code::default();
    (far, (Half(read, code.clone()), Half(write, code.clone())), code)
}

#[tokio::test]
async fn half_close_passes_while_the_answer_comes_back() {
    let ((mut client, one, one_code), (mut server, other, _)) = (side(), side());
    let talk = async {
        client.write_all(b"question").await.unwrap();
        client.shutdown().await.unwrap();
        let mut heard = Vec::new();
        server.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"question");
        server.write_all(b"answer after the end").await.unwrap();
        drop(server);
        heard.clear();
        client.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"answer after the end");
    };
    let (summary, ()) = tokio::join!(splice(one, other, Patience::with(Duration::from_secs(60)), &()), talk);
    assert!(matches!(summary.ended, Ended::Complete), "{summary:?}");
    assert_eq!((summary.forth, summary.back), (8, 20));
    assert_eq!(*one_code.lock().unwrap(), None);
}

#[test]
fn transfers_are_read_in_large_chunks_and_conversations_in_small_ones() {
    let (least, most) = (*CHUNKS.start(), *CHUNKS.end());
    assert_eq!(next_chunk(least, 10_000), least);
    assert_eq!(next_chunk(least, least), most);
    assert_eq!(next_chunk(most, least), most, "what has not come yet is no end");
    assert_eq!(next_chunk(most, most), most);
    assert_eq!(next_chunk(most, 100), least);
}

/// Pieces meet a pipe that takes a part of them at a time.
#[tokio::test]
async fn pieces_are_written_whole_and_in_order() {
    let (mut near, mut far) = duplex(5);
    let said: Vec<u8> = (0..60).collect();
    let mut pieces: Vec<Bytes> = said.chunks(9).map(Bytes::copy_from_slice).collect();
    let (moved, mut heard) = (AtomicU64::new(0), Vec::new());
    let write = async {
        let count = |bytes: usize| _ = moved.fetch_add(bytes as u64, Relaxed);
        write_pieces(&mut pieces, &mut near, &count).await.unwrap();
        near.shutdown().await.unwrap();
    };
    tokio::join!(write, async { far.read_to_end(&mut heard).await.unwrap() });
    assert_eq!((heard, moved.into_inner()), (said, 60));
    assert!(pieces.iter().all(Bytes::is_empty));
}

#[tokio::test]
async fn a_broken_side_resets_the_other() {
    let ((mut client, one, one_code), (server, other, other_code)) = (side(), side());
    drop(server);
    let (summary, _) = tokio::join!(
        splice(one, other, Patience::with(Duration::from_secs(60)), &()),
        client.write_all(b"into the void")
    );
    assert!(matches!(summary.ended, Ended::Broken(_)), "{summary:?}");
    for code in [one_code, other_code] {
        assert_eq!(*code.lock().unwrap(), Some(StreamCode::Reset));
    }
}

/// It refuses an upload, say, and closes.
#[tokio::test]
async fn a_side_that_takes_no_more_is_heard_to_its_end() {
    let ((mut client, one, one_code), (mut server, other, other_code)) = (side(), side());
    let talk = async {
        client.write_all(&[1; 128]).await.unwrap();
        drop(client);
        server.write_all(b"nobody takes it").await.unwrap();
        // Now it notices, with one pipe full and the rest in its hands.
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        let mut heard = Vec::new();
        server.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard.len(), 128);
    };
    let idle = Duration::from_secs(60);
    let (summary, ()) = tokio::join!(async { splice(one, other, Patience::with(idle), &()).await }, talk);
    assert!(matches!(summary.ended, Ended::Broken(_)), "{summary:?}");
    for code in [one_code, other_code] {
        assert_eq!(*code.lock().unwrap(), Some(StreamCode::Reset));
    }
}

#[tokio::test(start_paused = true)]
async fn last_words_are_not_waited_for_without_end() {
    let ((client, one, _), (mut server, other, _)) = (side(), side());
    let (mut silent, near) = duplex(64);
    let one = (Half(split(near).0, Code::default()), one.1);
    drop(client);
    let idle = Duration::from_secs(3_600);
    let (summary, _) = tokio::join!(splice(one, other, Patience::with(idle), &()), server.write_all(b"x"));
    assert!(matches!(summary.ended, Ended::Broken(_)), "{summary:?}");
    let _ = silent.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn silence_ends_it_and_traffic_does_not() {
    let ((mut client, one, code), (_server, other, _)) = (side(), side());
    let start = Instant::now();
    let talk = async {
        for _ in 0..3 {
            sleep_until(Instant::now() + Duration::from_secs(50)).await;
            client.write_all(b"x").await.unwrap();
        }
        std::future::pending::<()>().await;
    };
    let summary = tokio::select! { summary = splice(one, other, Patience::with(Duration::from_secs(60)), &()) => summary, () = talk => unreachable!() };
    assert!(matches!(summary.ended, Ended::Idle));
    assert_eq!(summary.forth, 3);
    // Virtual time: the last byte passed at 150 s, so that the silence ends between 60 s and
    // 120 s later.
    assert!(start.elapsed() >= Duration::from_secs(210));
    assert_eq!(*code.lock().unwrap(), Some(StreamCode::Idle));
}

const PATIENCE: Patience = Patience { idle: Duration::from_secs(3_600), left: Duration::from_secs(60) };

/// The program says 128 bytes, of which the host takes eight six times, and then no more.
async fn takes_slowly(
    program: &mut (impl AsyncWrite + Unpin),
    host: &mut (impl AsyncRead + Unpin),
    rest: Duration,
) {
    program.write_all(&[1; 128]).await.unwrap();
    for _ in 0..6 {
        sleep_until(Instant::now() + rest).await;
        host.read_exact(&mut [0; 8]).await.unwrap();
    }
    pending().await
}

/// Of a program that has closed, and a host that takes some of it now and then.
#[tokio::test(start_paused = true)]
async fn what_is_left_is_there_for_as_long_as_it_is_taken() {
    let ((mut host, one, _), (mut program, (read, write), code)) = (side(), side());
    let start = Instant::now();
    let takes = takes_slowly(&mut program, &mut host, Duration::from_secs(50));
    let splice = async { splice(one, (Left(read, FarEnd::Complete), write), PATIENCE, &()).await };
    let summary = tokio::select! { summary = splice => summary, () = takes => unreachable!() };
    let Ended::Broken(error) = summary.ended else { panic!("{summary:?}") };
    assert_eq!((error.kind(), summary.back), (io::ErrorKind::TimedOut, 64 + 48));
    // The last was taken at 300 s.
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(360) && took < Duration::from_secs(600), "{took:?}");
    assert_eq!(*code.lock().unwrap(), Some(StreamCode::Reset));
}

/// As long as there may be more, a host may rest.
#[tokio::test(start_paused = true)]
async fn who_takes_nothing_while_somebody_is_there_has_an_hour() {
    let ((_host, one, _), (mut program, other, code)) = (side(), side());
    let start = Instant::now();
    let splice = async { splice(one, other, PATIENCE, &()).await };
    let (summary, said) = tokio::join!(splice, program.write_all(&[1; 128]));
    said.unwrap();
    assert!(matches!(summary.ended, Ended::Idle), "{summary:?}");
    assert!(start.elapsed() >= PATIENCE.idle);
    assert_eq!(*code.lock().unwrap(), Some(StreamCode::Idle));
}

/// Whoever has broken off is not waited for as if it were there, but is heard by who takes it.
#[tokio::test(start_paused = true)]
async fn what_who_has_broken_off_said_is_there_for_as_long_as_it_is_taken() {
    let ((mut program, (read, write), code), (mut host, other, other_code)) = (side(), side());
    let start = Instant::now();
    let takes = takes_slowly(&mut program, &mut host, Duration::from_secs(20));
    let splice = async { splice((Broken(read), write), other, PATIENCE, &()).await };
    let summary = tokio::select! { summary = splice => summary, () = takes => unreachable!() };
    let Ended::Broken(error) = summary.ended else { panic!("{summary:?}") };
    assert_eq!((error.kind(), summary.forth), (io::ErrorKind::ConnectionReset, 64 + 48));
    // The last was taken at 120 s.
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(150) && took <= Duration::from_secs(180), "{took:?}");
    for code in [code, other_code] {
        assert_eq!(*code.lock().unwrap(), Some(StreamCode::Reset));
    }
}

/// The far end of a stream has broken off, and the other side takes nothing.
#[tokio::test(start_paused = true)]
async fn a_stream_that_was_reset_is_not_waited_for() {
    let ((_host, one, _), (mut program, (read, write), code)) = (side(), side());
    let start = Instant::now();
    let splice = async { splice(one, (Left(read, FarEnd::Broken), write), PATIENCE, &()).await };
    let (summary, said) = tokio::join!(splice, program.write_all(&[1; 128]));
    said.unwrap();
    assert!(matches!(summary.ended, Ended::Broken(_)), "{summary:?}");
    assert!(start.elapsed() <= 2 * NOBODY_THERE, "{:?}", start.elapsed());
    assert_eq!(*code.lock().unwrap(), Some(StreamCode::Reset));
}

/// At the client: its program has broken off behind a half-close, and the host takes its time.
#[tokio::test(start_paused = true)]
async fn who_breaks_off_behind_its_last_words_is_not_waited_for() {
    let ((mut program, (read, write), code), (mut host, other, other_code)) = (side(), side());
    let start = Instant::now();
    let splice = async { splice((Broken(read), write), other, PATIENCE, &()).await };
    let talk = async {
        program.write_all(b"question").await.unwrap();
        program.shutdown().await.unwrap();
        let mut heard = Vec::new();
        host.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"question");
    };
    let (summary, ()) = tokio::join!(splice, talk);
    let Ended::Broken(error) = summary.ended else { panic!("{summary:?}") };
    assert_eq!((error.kind(), summary.forth), (io::ErrorKind::ConnectionReset, 8));
    assert!(start.elapsed() <= NOBODY_THERE, "{:?}", start.elapsed());
    for code in [code, other_code] {
        assert_eq!(*code.lock().unwrap(), Some(StreamCode::Reset));
    }
}

/// The client's program is gone behind a half-close, and the host says nothing.
#[tokio::test(start_paused = true)]
async fn who_has_said_its_last_and_hears_no_more_is_not_kept_for_a_silent_host() {
    let ((mut host, one, one_code), (mut program, (read, write), code)) = (side(), side());
    let start = Instant::now();
    let splice = async { splice(one, (read, Refused(write)), PATIENCE, &()).await };
    let talk = async {
        program.write_all(b"question").await.unwrap();
        // As long as it may say more, it has an hour.
        sleep_until(start + 2 * LAST_WORDS).await;
        program.shutdown().await.unwrap();
        let mut heard = Vec::new();
        host.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"question");
    };
    let (summary, ()) = tokio::join!(splice, talk);
    assert!(matches!(summary.ended, Ended::Unheard), "{summary:?}");
    let took = start.elapsed();
    assert!(took >= 2 * LAST_WORDS && took <= 4 * LAST_WORDS, "{took:?}");
    for code in [one_code, code] {
        assert_eq!(*code.lock().unwrap(), Some(StreamCode::Reset));
    }
}

/// A host that takes its time, with more than it has room for on its way: a reset would take the rest from it.
#[tokio::test(start_paused = true)]
async fn who_hears_no_more_has_said_all_to_its_host() {
    const SAID: usize = 32 * 1024;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut host, _) = listener.accept().await.unwrap();
    let (mut program, (read, write), code) = side();
    let splice = async { splice_tcp(tcp, (read, Refused(write)), PATIENCE, &()).await };
    let talk = async {
        program.write_all(&[1; SAID]).await.unwrap();
        program.shutdown().await.unwrap();
    };
    let (summary, ()) = tokio::join!(splice, talk);
    assert!(matches!(summary.ended, Ended::Unheard), "{summary:?}");
    assert_eq!(*code.lock().unwrap(), Some(StreamCode::Reset));
    let mut heard = Vec::new();
    host.read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard.len(), SAID);
}

#[tokio::test]
async fn a_stream_is_refused_by_who_stops_it_or_is_gone_and_not_by_its_own_end() {
    let long = Duration::from_secs(60);
    for is_there in [true, false] {
        let (client, (mut send, mut receive), server) = crate::association::tests::connected().await;
        send.write_all(b"x").await.unwrap();
        let (answer, _asked) = server.accept_bi().await.unwrap();
        if is_there {
            receive.stop(StreamCode::Reset.into()).unwrap();
        } else {
            client.close(mendpath::VarInt::from_u32(0), b"");
        }
        timeout(long, answer.refused()).await.expect("it is noticed");
    }
    let (_client, (mut send, mut receive), server) = crate::association::tests::connected().await;
    send.write_all(b"x").await.unwrap();
    let (mut answer, _asked) = server.accept_bi().await.unwrap();
    let mut refused = answer.refused();
    answer.finish().unwrap();
    assert_eq!(receive.read_to_end(1).await.unwrap(), b"");
    answer.finished().await.unwrap();
    assert!(poll_fn(|cx| Poll::Ready(refused.as_mut().poll(cx))).await.is_pending());
}

/// There is more to read before the error, and nobody reads.
#[tokio::test]
async fn a_reset_is_noticed_without_reading() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut program = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut tcp, _) = listener.accept().await.unwrap();
    program.write_all(b"upload").await.unwrap();
    assert_eq!(tcp.peek(&mut [0; 6]).await.unwrap(), 6);
    let (read, _write) = tcp.split();
    let mut broken = pin!(read.broken());
    assert!(poll_fn(|cx| Poll::Ready(broken.as_mut().poll(cx))).await.is_pending());
    reset(program);
    tokio::time::timeout(Duration::from_secs(60), broken).await.expect("it is noticed");
}
