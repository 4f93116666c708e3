//! The exact effects of frames, well-meant and hostile, and what holds after any of them.

use super::*;
use proptest::prelude::*;

fn step(session: &mut Session, frame: Frame) -> Result<Vec<Effect>, SessionFault> {
    let mut effects = Vec::new();
    let outcome = session.receive(frame, &mut effects);
    session.validate();
    outcome.map(|()| effects)
}

fn syn(id: u32) -> Frame {
    Frame::SynStream { id, headers: Headers::new(), fin: false, unidirectional: false }
}

fn data(id: u32, text: &'static str, fin: bool) -> Frame {
    Frame::Data { id, bytes: Bytes::from_static(text.as_bytes()), fin }
}

fn with(run: impl FnOnce(&mut Vec<Effect>)) -> Vec<Effect> {
    let mut effects = Vec::new();
    run(&mut effects);
    effects
}

fn reset_of(id: u32, status: u32) -> Effect {
    Effect::Send(Frame::Reset { id, status })
}

/// A server with stream 1 open and taken.
fn server() -> Session {
    let mut session = Session::new(Role::Server, 4);
    assert_eq!(step(&mut session, syn(1)).unwrap(), [Effect::Opened { id: 1, headers: Headers::new() }]);
    with(|effects| session.reply(1, effects));
    session
}

#[test]
fn each_side_finishes_for_itself() {
    let mut session = server();
    let bytes = Bytes::from_static(b"in");
    assert_eq!(
        step(&mut session, data(1, "in", true)).unwrap(),
        [Effect::Data { id: 1, bytes }, Effect::Finished { id: 1 }]
    );
    let out = with(|effects| session.send(1, Bytes::from_static(b"out"), false, effects));
    assert_eq!(out, [Effect::Send(data(1, "out", false))], "the other half is still open");
    with(|effects| session.send(1, Bytes::new(), true, effects));
    assert!(session.streams.is_empty());
    assert_eq!(with(|effects| session.send(1, Bytes::from_static(b"late"), false, effects)), []);
}

#[test]
fn a_client_opens_and_is_answered() {
    let mut session = Session::new(Role::Client, 4);
    assert_eq!(session.open(Headers::new(), &mut Vec::new()), Some(1));
    assert_eq!(session.open(Headers::new(), &mut Vec::new()), Some(3));
    let reply = |id| Frame::SynReply { id, headers: Headers::new(), fin: false };
    assert_eq!(step(&mut session, reply(3)).unwrap(), [Effect::Accepted { id: 3 }]);
    let twice = step(&mut session, reply(3)).unwrap();
    assert_eq!(twice, [reset_of(3, reset::STREAM_IN_USE), Effect::Reset { id: 3, status: reset::STREAM_IN_USE }]);
    assert_eq!(step(&mut session, reply(9)).unwrap(), [reset_of(9, reset::INVALID_STREAM)]);
    let refused = Frame::Reset { id: 1, status: reset::REFUSED_STREAM };
    assert_eq!(step(&mut session, refused).unwrap(), [Effect::Reset { id: 1, status: reset::REFUSED_STREAM }]);
    step(&mut session, Frame::Settings(vec![(setting::MAX_CONCURRENT_STREAMS, 0)])).unwrap();
    assert_eq!(session.open(Headers::new(), &mut Vec::new()), None, "the peer allows none");
}

#[test]
fn games_with_stream_ids_end_the_connection() {
    for id in [0, 1, 2] {
        assert_eq!(step(&mut server(), syn(id)), Err(SessionFault::StreamId(id)));
    }
    let mut session = server();
    step(&mut session, syn(9)).unwrap();
    assert_eq!(step(&mut session, syn(7)), Err(SessionFault::StreamId(7)), "never backwards");
}

#[test]
fn frames_for_no_stream_are_answered_a_thousand_times() {
    let mut session = server();
    step(&mut session, Frame::Reset { id: 1, status: reset::CANCEL }).unwrap();
    assert_eq!(step(&mut session, data(1, "crossed", false)).unwrap(), []);
    for _ in 0..MAX_RESETS {
        assert_eq!(step(&mut session, data(77, "x", false)).unwrap(), [reset_of(77, reset::INVALID_STREAM)]);
    }
    assert_eq!(step(&mut session, data(77, "x", false)), Err(SessionFault::Astray));
}

#[test]
fn what_is_too_much_is_refused() {
    let mut session = server();
    for id in [3, 5, 7] {
        step(&mut session, syn(id)).unwrap();
    }
    assert_eq!(step(&mut session, syn(9)).unwrap(), [reset_of(9, reset::REFUSED_STREAM)]);
    step(&mut session, data(7, "", true)).unwrap();
    let more = step(&mut session, data(7, "more", false)).unwrap();
    let status = reset::STREAM_ALREADY_CLOSED;
    assert_eq!(more, [reset_of(7, status), Effect::Reset { id: 7, status }]);
}

#[test]
fn windows_bind_once_the_peer_keeps_some() {
    let mut session = server();
    let update = |id, delta| Frame::WindowUpdate { id, delta };
    let first = step(&mut session, update(1, 10)).unwrap();
    assert_eq!(first, [Effect::Bound, Effect::Credit { id: 1, delta: 10 }]);
    assert_eq!(step(&mut session, update(0, 5)).unwrap(), [Effect::Credit { id: 0, delta: 5 }]);
    let smaller = step(&mut session, Frame::Settings(vec![(setting::INITIAL_WINDOW_SIZE, 1_000)])).unwrap();
    assert_eq!(smaller, [Effect::Credit { id: 1, delta: 1_000 - WINDOW }]);
    let status = reset::FLOW_CONTROL_ERROR;
    let over = step(&mut session, update(1, 0x7fff_ffff)).unwrap();
    assert_eq!(over, [reset_of(1, status), Effect::Reset { id: 1, status }]);
    assert_eq!(step(&mut session, update(0, 0x7fff_ffff)), Err(SessionFault::Window));
    assert_eq!(step(&mut server(), update(0, 0)), Err(SessionFault::Window));
}

#[test]
fn what_is_taken_opens_the_windows_again() {
    let mut session = server();
    assert_eq!(with(|effects| session.took(1, 20_000, effects)), []);
    let opened = |id, delta| Effect::Send(Frame::WindowUpdate { id, delta });
    assert_eq!(with(|effects| session.took(1, 20_000, effects)), [opened(0, 40_000), opened(1, 40_000)]);
    with(|effects| session.reset(1, reset::CANCEL, effects));
    assert_eq!(with(|effects| session.took(1, 40_000, effects)), [opened(0, 40_000)], "the connection goes on");
}

#[test]
fn a_server_without_windows_is_told_of_none() {
    let mut session = Session::new(Role::Client, 4);
    session.open(Headers::new(), &mut Vec::new());
    assert_eq!(with(|effects| session.took(1, 100_000, effects)), []);
    step(&mut session, Frame::WindowUpdate { id: 0, delta: 1 }).unwrap();
    let opened = |id| Effect::Send(Frame::WindowUpdate { id, delta: 100_001 });
    assert_eq!(with(|effects| session.took(1, 1, effects)), [opened(0), opened(1)], "all of it, once it keeps some");
}

#[test]
fn who_leaves_waits_for_what_is_open() {
    let mut session = server();
    assert_eq!(step(&mut session, Frame::GoAway { last: 0, status: goaway::OK }).unwrap(), []);
    assert_eq!(step(&mut session, syn(3)).unwrap(), [reset_of(3, reset::REFUSED_STREAM)]);
    assert_eq!(step(&mut session, data(1, "", true)).unwrap(), [Effect::Finished { id: 1 }]);
    let last = with(|effects| session.send(1, Bytes::new(), true, effects));
    assert_eq!(last, [Effect::Send(data(1, "", true)), Effect::Ended]);
    let mut idle = Session::new(Role::Server, 4);
    let left = with(|effects| idle.leave(goaway::OK, effects));
    assert_eq!(left, [Effect::Send(Frame::GoAway { last: 0, status: goaway::OK }), Effect::Ended]);
}

#[test]
fn pings_of_the_peer_come_back() {
    let mut session = server();
    assert_eq!(step(&mut session, Frame::Ping(1)).unwrap(), [Effect::Send(Frame::Ping(1))]);
    assert_eq!(step(&mut session, Frame::Ping(2)).unwrap(), []);
}

#[derive(Clone, Debug)]
enum Step {
    Receive(Frame),
    Open,
    Reply(u32),
    Send(u32, bool),
    Reset(u32),
    Took(u32, u32),
    Leave,
}

fn steps() -> impl Strategy<Value = Step> {
    let id = 0_u32..12;
    prop_oneof![
        4 => (id.clone(), any::<bool>(), any::<bool>()).prop_map(|(id, fin, unidirectional)| {
            Step::Receive(Frame::SynStream { id, headers: Headers::new(), fin, unidirectional })
        }),
        2 => (id.clone(), any::<bool>())
            .prop_map(|(id, fin)| Step::Receive(Frame::SynReply { id, headers: Headers::new(), fin })),
        4 => (id.clone(), any::<bool>()).prop_map(|(id, fin)| Step::Receive(data(id, "x", fin))),
        1 => id.clone().prop_map(|id| Step::Receive(Frame::Reset { id, status: 5 })),
        2 => (id.clone(), any::<u32>())
            .prop_map(|(id, delta)| Step::Receive(Frame::WindowUpdate { id, delta: delta >> 1 })),
        1 => any::<u32>().prop_map(|value| Step::Receive(Frame::Settings(vec![(7, value), (4, value)]))),
        1 => Just(Step::Receive(Frame::GoAway { last: 0, status: 0 })),
        3 => Just(Step::Open),
        2 => id.clone().prop_map(Step::Reply),
        3 => (id.clone(), any::<bool>()).prop_map(|(id, fin)| Step::Send(id, fin)),
        1 => id.clone().prop_map(Step::Reset),
        2 => (id, any::<u32>()).prop_map(|(id, bytes)| Step::Took(id, bytes)),
        1 => Just(Step::Leave),
    ]
}

/// Nothing is sent on a stream after its end, and nothing comes out of one after its reset.
fn in_order(effects: &[Effect]) {
    let (mut closed, mut gone) = (Vec::new(), Vec::new());
    for effect in effects {
        match effect {
            Effect::Send(Frame::Data { id, fin, .. }) => {
                assert!(!closed.contains(id), "data after the end of {id}");
                if *fin {
                    closed.push(*id);
                }
            }
            Effect::Send(Frame::Reset { id, status }) if *status != reset::INVALID_STREAM => closed.push(*id),
            Effect::Opened { id, .. } | Effect::Accepted { id } | Effect::Data { id, .. } | Effect::Finished { id } => {
                assert!(!gone.contains(id), "{effect:?} after the reset of {id}");
            }
            Effect::Reset { id, .. } => gone.push(*id),
            _ => {}
        }
    }
    assert!(effects.iter().filter(|effect| **effect == Effect::Ended).count() <= 1);
}

proptest! {
    #[test]
    fn any_order_of_steps_keeps_the_rules(client in any::<bool>(), steps in proptest::collection::vec(steps(), 0..80)) {
        let role = if client { Role::Client } else { Role::Server };
        let (mut session, mut effects) = (Session::new(role, 4), Vec::new());
        for step in steps {
            match step {
                Step::Receive(frame) => {
                    if session.receive(frame, &mut effects).is_err() {
                        break;
                    }
                }
                Step::Open => drop(session.open(Headers::new(), &mut effects)),
                Step::Reply(id) => session.reply(id, &mut effects),
                Step::Send(id, fin) => session.send(id, Bytes::from_static(b"y"), fin, &mut effects),
                Step::Reset(id) => session.reset(id, reset::CANCEL, &mut effects),
                Step::Took(id, bytes) => session.took(id, bytes, &mut effects),
                Step::Leave => session.leave(goaway::OK, &mut effects),
            }
            session.validate();
        }
        in_order(&effects);
    }
}
