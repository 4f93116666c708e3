//! Joins a client's SPDY connection to the node agent's, stream by stream: each stream that the client opens is opened at the agent
//! with the same headers, and halves, ends and resets go through. Decides nothing about what streams carry.

use super::STALLED;
use super::spdy::{Connection, Gone, Part, Receiver, Sender, Stream, reset};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// An agent takes a stream, or refuses it, by then.
pub const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// Returns when either connection has ended and everything that came from the agent is on its way to the client.
pub async fn relay(mut client: Connection, mut agent: Connection) {
    let mut pairs = JoinSet::new();
    loop {
        tokio::select! {
            stream = client.incoming.recv() => {
                let Some(ours) = stream else { return };
                // Here, not in its task: the agent sees the streams in the client's order.
                match agent.handle.opening(ours.headers.clone()).await {
                    Ok(told) => drop(pairs.spawn(async move {
                        match timeout(OPEN_WITHIN, told).await {
                            Ok(Ok(Ok(theirs))) => carry(ours, theirs).await,
                            _ => drop(ours.sender.reset(reset::REFUSED_STREAM).await),
                        }
                    })),
                    Err(_) => break,
                }
            }
            stream = agent.incoming.recv() => match stream {
                // Agents open none.
                Some(theirs) => drop(theirs.sender.reset(reset::REFUSED_STREAM).await),
                None => break,
            },
            Some(_) = pairs.join_next() => {}
        }
    }
    // The agent is gone; what it said before still arrives.
    while pairs.join_next().await.is_some() {}
}

async fn carry(ours: Stream, theirs: Stream) {
    if ours.sender.reply().await.is_err() {
        return;
    }
    // A container may read when it likes; a client has to.
    tokio::join!(copy(ours.receiver, &theirs.sender, None), copy(theirs.receiver, &ours.sender, Some(STALLED)));
}

async fn copy(mut from: Receiver, to: &Sender, stall: Option<Duration>) {
    let _ = loop {
        match from.recv().await {
            Some(Part::Data(bytes)) => {
                let sent = match stall {
                    Some(stall) => timeout(stall, to.send(bytes)).await,
                    None => Ok(to.send(bytes).await),
                };
                match sent {
                    Ok(Ok(())) => {}
                    Ok(Err(Gone)) => break Ok(()),
                    // Its windows stay shut, or nothing is read at all.
                    Err(_) => break to.reset(reset::CANCEL).await,
                }
            }
            Some(Part::Finished) => break to.finish().await,
            Some(Part::Reset(status)) => break to.reset(status).await,
            // Its connection went away under it.
            None => break to.reset(reset::CANCEL).await,
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::spdy::{Headers, Limits, Role};
    use bytes::Bytes;
    use tokio::io::duplex;

    const PATIENCE: Duration = Duration::from_secs(20);
    const IDLE: Duration = Duration::from_secs(4 * 60 * 60);

    /// A client and an agent with a relay between them.
    fn three() -> (Connection, Connection, tokio::task::JoinHandle<()>) {
        let start = |role| {
            let limits = Limits { streams: 8, idle: IDLE, ping: None, stall: Some(STALLED) };
            move |transport| Connection::start(transport, role, limits)
        };
        let ((far, near), (up, down)) = (duplex(4_096), duplex(4_096));
        let (client, agent) = (start(Role::Client)(far), start(Role::Server)(down));
        let relayed = tokio::spawn(relay(start(Role::Server)(near), start(Role::Client)(up)));
        (client, agent, relayed)
    }

    async fn within<T>(what: impl Future<Output = T>) -> T {
        timeout(PATIENCE, what).await.expect("in time")
    }

    async fn opened(client: &Connection, agent: &mut Connection) -> (Stream, Stream) {
        let headers: Headers = vec![("streamtype".into(), "data".into()), ("port".into(), "80".into())];
        let told = client.handle.opening(headers.clone()).await.unwrap();
        let theirs = within(agent.incoming.recv()).await.unwrap();
        assert_eq!(theirs.headers, headers, "as the client sent them");
        theirs.sender.reply().await.unwrap();
        (within(told).await.unwrap().unwrap(), theirs)
    }

    async fn next(receiver: &mut Receiver) -> Option<Part> {
        within(receiver.recv()).await
    }

    #[tokio::test]
    async fn streams_go_through_with_their_halves() {
        let (client, mut agent, _) = three();
        let (mut ours, mut theirs) = opened(&client, &mut agent).await;
        ours.sender.send(Bytes::from_static(b"GET /")).await.unwrap();
        ours.sender.finish().await.unwrap();
        assert_eq!(next(&mut theirs.receiver).await, Some(Part::Data(Bytes::from_static(b"GET /"))));
        assert_eq!(next(&mut theirs.receiver).await, Some(Part::Finished));
        theirs.sender.send(Bytes::from_static(b"200")).await.unwrap();
        assert_eq!(next(&mut ours.receiver).await, Some(Part::Data(Bytes::from_static(b"200"))));
        theirs.sender.reset(reset::INTERNAL_ERROR).await.unwrap();
        assert_eq!(next(&mut ours.receiver).await, Some(Part::Reset(reset::INTERNAL_ERROR)));
    }

    #[tokio::test]
    async fn a_stream_that_the_agent_refuses_is_refused() {
        let (client, mut agent, _) = three();
        let told = client.handle.opening(Headers::new()).await.unwrap();
        let theirs = within(agent.incoming.recv()).await.unwrap();
        theirs.sender.reset(reset::REFUSED_STREAM).await.unwrap();
        assert!(within(told).await.is_err());
    }

    #[tokio::test]
    async fn what_an_agent_says_before_it_goes_arrives() {
        let (client, mut agent, relayed) = three();
        let (mut ours, theirs) = opened(&client, &mut agent).await;
        theirs.sender.send(Bytes::from(vec![1; 100_000])).await.unwrap();
        drop((agent, theirs));
        let mut length = 0;
        loop {
            match next(&mut ours.receiver).await {
                Some(Part::Data(bytes)) => length += bytes.len(),
                end => break assert!(matches!(end, Some(Part::Reset(_)) | None), "{end:?}"),
            }
        }
        assert_eq!(length, 100_000);
        within(relayed).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_given_up_though_it_goes_on_talking() {
        let (client, mut agent, relayed) = three();
        let (ours, theirs) = opened(&client, &mut agent).await;
        let writing = tokio::spawn(async move { while theirs.sender.send(vec![b'x'; 4_096].into()).await.is_ok() {} });
        let talking = tokio::spawn(async move {
            while ours.sender.send(Bytes::from_static(b"x")).await.is_ok() {
                tokio::time::sleep(STALLED / 10).await;
            }
            drop(ours.receiver);
        });
        timeout(2 * STALLED, relayed).await.expect("the relay has ended").unwrap();
        timeout(STALLED, writing).await.expect("the agent was told").unwrap();
        timeout(STALLED, talking).await.expect("the client was told").unwrap();
    }

    #[tokio::test]
    async fn a_client_that_goes_takes_its_agent_streams_along() {
        let (client, mut agent, relayed) = three();
        let (ours, mut theirs) = opened(&client, &mut agent).await;
        drop((client, ours));
        let end = next(&mut theirs.receiver).await;
        assert!(matches!(end, Some(Part::Reset(_)) | None), "{end:?}");
        within(relayed).await.unwrap();
        assert!(within(agent.incoming.recv()).await.is_none());
    }
}
