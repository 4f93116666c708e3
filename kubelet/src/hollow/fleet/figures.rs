//! How a hollow fleet is, in numbers for people. Counts; decides nothing.

use crate::api::PodStatus;

/// What is there now, and what was written since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub machines: usize,
    pub registered: usize,
    pub pods: usize,
    pub ready: usize,
    pub finished: usize,
    /// Statuses and deletions that wait or are in flight.
    pub waiting: usize,
    pub renewals: u64,
    pub statuses: u64,
    pub deletions: u64,
    /// Writes that the server did not take.
    pub failures: u64,
}

impl Figures {
    pub fn count(&mut self, status: &PodStatus) {
        self.pods += 1;
        self.finished += usize::from(status.is_final());
        self.ready += usize::from(status.condition("Ready").is_some_and(|c| c.status == "True"));
    }
}
