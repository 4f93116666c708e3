//! The scheduler, the controllers, the node agent and the proxy as supervised tasks. They meet only at the API.

use crate::supervise::supervise;
use gantry_client::Client;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Starts components, each under supervision, and waits for all of them to end.
#[derive(Clone, Default)]
pub struct Components {
    tasks: TaskTracker,
    cancel: CancellationToken,
}

impl Components {
    pub fn new(cancel: CancellationToken) -> Self {
        Self { tasks: TaskTracker::new(), cancel }
    }

    /// Runs `start` again whenever it ends, until cancelled.
    pub fn spawn<Run, E>(
        &self,
        name: &'static str,
        client: Client,
        start: impl Fn(Client, CancellationToken) -> Run + Send + 'static,
    ) where
        Run: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<anyhow::Error> + Send + 'static,
    {
        let run = supervise(name, self.cancel.clone(), move |token| start(client.clone(), token));
        self.tasks.spawn(run);
    }

    /// Returns when every component has ended after the cancellation.
    pub async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
