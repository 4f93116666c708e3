//! How long a list keeps its seats: until its body is sent, since large ones are put together while they are. Decides nothing else.

use super::level::Seat;
use crate::http::{Body, Response};
use http_body::Body as _;
use http_body_util::BodyExt;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Who reads more slowly than that does not keep others waiting.
const LONGEST: Duration = Duration::from_secs(10);

/// The same response, with a body that gives the seat back.
pub fn until_sent(seat: Seat, response: Response) -> Response {
    if response.body().size_hint().exact().is_some() {
        // It is there already.
        return response;
    }
    let (sending, sent) = oneshot::channel::<()>();
    tokio::spawn(async move {
        // Never sent: the body is dropped with its end of the channel.
        let _ = timeout(LONGEST, sent).await;
        drop(seat);
    });
    response.map(|body| -> Body {
        let held = body.map_frame(move |frame| {
            let _ = &sending;
            frame
        });
        held.boxed_unsync()
    })
}
