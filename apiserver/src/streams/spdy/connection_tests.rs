//! Two ends of a connection over a pipe of this process, and peers that keep no rule.

use super::*;
use bytes::Bytes;
use tokio::io::{DuplexStream, duplex};

const LIMITS: Limits = Limits { streams: 8, idle: Duration::from_secs(60), ping: None, stall: None };
const PATIENCE: Duration = Duration::from_secs(20);

fn pair() -> (Connection, Connection) {
    let (near, far) = duplex(4 * 1024);
    (Connection::start(near, Role::Client, LIMITS), Connection::start(far, Role::Server, LIMITS))
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("in time")
}

fn headers(kind: &str) -> Headers {
    vec![("streamtype".to_owned(), kind.to_owned())]
}

/// A stream as both ends hold it.
async fn opened(client: &Connection, server: &mut Connection) -> (Stream, Stream) {
    let told = client.handle.opening(headers("data")).await.unwrap();
    let theirs = within(server.incoming.recv()).await.unwrap();
    assert_eq!(theirs.headers, headers("data"));
    theirs.sender.reply().await.unwrap();
    (within(told).await.unwrap().unwrap(), theirs)
}

async fn rest(receiver: &mut Receiver) -> (Vec<u8>, Option<Part>) {
    let mut all = Vec::new();
    loop {
        match within(receiver.recv()).await {
            Some(Part::Data(bytes)) => all.extend_from_slice(&bytes),
            end => return (all, end),
        }
    }
}

#[tokio::test]
async fn halves_are_closed_one_by_one() {
    let (client, mut server) = pair();
    let (mut ours, mut theirs) = opened(&client, &mut server).await;
    ours.sender.send(Bytes::from_static(b"question")).await.unwrap();
    ours.sender.finish().await.unwrap();
    assert_eq!(rest(&mut theirs.receiver).await, (b"question".to_vec(), Some(Part::Finished)));
    theirs.sender.send(Bytes::from_static(b"answer")).await.unwrap();
    theirs.sender.finish().await.unwrap();
    assert_eq!(rest(&mut ours.receiver).await, (b"answer".to_vec(), Some(Part::Finished)));
}

#[tokio::test]
async fn much_goes_both_ways_at_once_whole_and_in_order() {
    let (client, mut server) = pair();
    let (ours, theirs) = opened(&client, &mut server).await;
    let bytes: Bytes = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect::<Vec<u8>>().into();
    let send = |sender: Sender, bytes: Bytes| async move {
        sender.send(bytes).await.unwrap();
        sender.finish().await.unwrap();
    };
    let (mut near, mut far) = (ours.receiver, theirs.receiver);
    let all = async {
        tokio::join!(
            send(ours.sender, bytes.clone()),
            send(theirs.sender, bytes.clone()),
            rest(&mut near),
            rest(&mut far)
        )
    };
    let ((), (), one, other) = within(all).await;
    assert!(one.0 == bytes && other.0 == bytes);
    assert_eq!((one.1, other.1), (Some(Part::Finished), Some(Part::Finished)));
}

#[tokio::test]
async fn who_does_not_read_stops_its_sender() {
    let (client, mut server) = pair();
    let (ours, mut theirs) = opened(&client, &mut server).await;
    let sent = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = sent.clone();
    let sending = tokio::spawn(async move {
        for _ in 0..4_000 {
            ours.sender.send(Bytes::from(vec![1; 1_000])).await.unwrap();
            count.fetch_add(1_000, Ordering::SeqCst);
        }
        ours.sender.finish().await.unwrap();
    });
    // It stops: as long as nothing is taken, nothing moves.
    let mut before = usize::MAX;
    within(async {
        loop {
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            if std::mem::replace(&mut before, sent.load(Ordering::SeqCst)) == before && before > 0 {
                return;
            }
        }
    })
    .await;
    assert!(before <= MAX_UNREAD + MAX_UNSENT + 200_000, "{before} bytes are under way");
    assert_eq!(rest(&mut theirs.receiver).await.0.len(), 4_000_000);
    within(sending).await.unwrap();
}

#[tokio::test]
async fn who_goes_away_does_not_stop_the_others() {
    let (client, mut server) = pair();
    let (dropped, theirs) = opened(&client, &mut server).await;
    drop(theirs.receiver);
    let (ours, mut far) = opened(&client, &mut server).await;
    let noise = tokio::spawn(async move {
        while dropped.sender.send(Bytes::from(vec![0; 10_000])).await.is_ok() {
            tokio::task::yield_now().await;
        }
    });
    ours.sender.send(Bytes::from(vec![2; 500_000])).await.unwrap();
    ours.sender.finish().await.unwrap();
    assert_eq!(rest(&mut far.receiver).await.0.len(), 500_000);
    within(noise).await.unwrap();
}

#[tokio::test]
async fn a_reset_ends_both_halves() {
    let (client, mut server) = pair();
    let (mut ours, mut theirs) = opened(&client, &mut server).await;
    theirs.sender.reset(reset::INTERNAL_ERROR).await.unwrap();
    assert_eq!(within(ours.receiver.recv()).await, Some(Part::Reset(reset::INTERNAL_ERROR)));
    assert_eq!(within(theirs.receiver.recv()).await, None);
}

#[tokio::test]
async fn a_refused_stream_is_not_opened() {
    let (client, mut server) = pair();
    let told = client.handle.opening(headers("error")).await.unwrap();
    let theirs = within(server.incoming.recv()).await.unwrap();
    theirs.sender.reset(reset::REFUSED_STREAM).await.unwrap();
    assert!(within(told).await.is_err(), "nobody answers any more");
    for _ in 0..LIMITS.streams {
        drop(client.handle.opening(headers("error")).await.unwrap());
    }
    assert!(within(client.handle.open(headers("one too many"))).await.is_err());
}

#[tokio::test]
async fn the_last_handle_ends_the_connection() {
    let (client, mut server) = pair();
    let (ours, mut theirs) = opened(&client, &mut server).await;
    ours.sender.send(Bytes::from_static(b"the last words")).await.unwrap();
    drop((client, ours));
    assert_eq!(rest(&mut theirs.receiver).await, (b"the last words".to_vec(), None));
    assert!(within(server.incoming.recv()).await.is_none());
    assert!(theirs.sender.finish().await.is_err());
}

async fn answer(peer: &mut DuplexStream) -> Vec<u8> {
    let mut answer = Vec::new();
    within(peer.read_to_end(&mut answer)).await.unwrap();
    answer
}

#[tokio::test]
async fn a_peer_that_speaks_something_else_is_told_so() {
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x80, 3, 0, 6, 0, 0, 0, 9, 1], &[0x80, 3, 0, 1, 0, 1, 0, 0]] {
        let (mut peer, near) = duplex(4 * 1024);
        let mut server = Connection::start(near, Role::Server, LIMITS);
        peer.write_all(words).await.unwrap();
        if words[0] == b'G' {
            // The letters are the head of a data frame for a stream that never was.
            peer.shutdown().await.unwrap();
        } else {
            assert_eq!(answer(&mut peer).await, [0x80, 3, 0, 7, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1]);
        }
        assert!(within(server.incoming.recv()).await.is_none());
    }
}

/// A transport that takes nothing, and gives once somebody tried.
struct Deaf {
    says: &'static [u8],
    tried: bool,
    waiting: Option<std::task::Waker>,
}

impl AsyncRead for Deaf {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        if !self.tried {
            self.waiting = Some(context.waker().clone());
            return std::task::Poll::Pending;
        }
        let (now, rest) = self.says.split_at(self.says.len().min(5));
        buffer.put_slice(now);
        self.says = rest;
        std::task::Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Deaf {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        self.tried = true;
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
        std::task::Poll::Ready(Err(std::io::ErrorKind::BrokenPipe.into()))
    }
    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn what_a_peer_said_is_read_though_it_hears_nothing() {
    // SYN_REPLY for the first stream, seven bytes of data, and its reset.
    const SAID: &[u8] = &[
        0x80, 3, 0, 2, 0, 0, 0, 24, 0, 0, 0, 1, 0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2, 0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0,
        0, 0, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 7, b'7', b' ', b'b', b'y', b't', b'e', b's', 0x80, 3, 0, 3, 0, 0, 0, 8,
        0, 0, 0, 1, 0, 0, 0, 5,
    ];
    let client = Connection::start(Deaf { says: SAID, tried: false, waiting: None }, Role::Client, LIMITS);
    let mut stream = within(client.handle.open(headers("error"))).await.unwrap();
    let (said, end) = rest(&mut stream.receiver).await;
    assert_eq!((said, end), (b"7 bytes".to_vec(), Some(Part::Reset(reset::CANCEL))));
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_connection() {
    let begun = Instant::now();
    let (mut peer, near) = duplex(4 * 1024);
    let _server = Connection::start(near, Role::Server, LIMITS);
    let mut heard = Vec::new();
    peer.read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard, b"");
    assert_eq!(begun.elapsed(), LIMITS.idle);
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_is_asked_and_then_given_up() {
    let begun = Instant::now();
    let (mut peer, near) = duplex(4 * 1024);
    let limits = Limits { ping: Some(Duration::from_secs(5)), ..LIMITS };
    let _client = Connection::start(near, Role::Client, limits);
    assert_eq!(answer(&mut peer).await, [0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1]);
    assert_eq!(begun.elapsed(), Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_nothing_is_given_up() {
    let begun = Instant::now();
    let (_peer, near) = duplex(8);
    let stall = Some(Duration::from_secs(10));
    let server = Connection::start(near, Role::Server, Limits { stall, ..LIMITS });
    let told = server.handle.opening(headers("data")).await.unwrap();
    assert!(told.await.is_err(), "its stream is gone");
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
}
