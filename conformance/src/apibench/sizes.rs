//! How many of everything there are: as the goals say, or few enough for a quick look.

#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Writes of each kind whose cost is measured.
    pub writes: u64,
    pub events: u64,
    /// Creates of the team that submits as fast as it can.
    pub burst: u64,
    pub watchers: usize,
    pub watcher_connections: usize,
    /// Writes that all watchers see.
    pub seen_writes: usize,
    /// How many agents watch by `spec.nodeName`, in order.
    pub agents: [usize; 3],
    pub agent_writes: u64,
    pub nodes: u64,
    pub pods: u64,
    /// So many pods are listed, before the rest is made.
    pub listed_pods: u64,
    pub lists: usize,
    pub listing_clients: usize,
    /// Objects of 1 KB of which a list selects none.
    pub config_maps: u64,
    pub empty_lists: usize,
}

impl Sizes {
    pub const FULL: Self = Self {
        writes: 20_000,
        events: 40_960,
        burst: 30_000,
        watchers: 10_000,
        watcher_connections: 100,
        seen_writes: 20,
        agents: [100, 1_000, 10_000],
        agent_writes: 5_000,
        nodes: 10_000,
        pods: 300_000,
        listed_pods: 100_000,
        lists: 5,
        listing_clients: 16,
        config_maps: 300_000,
        empty_lists: 300,
    };

    pub const QUICK: Self = Self {
        writes: 600,
        events: 512,
        burst: 600,
        watchers: 300,
        watcher_connections: 10,
        seen_writes: 5,
        agents: [20, 50, 200],
        agent_writes: 200,
        nodes: 100,
        pods: 1_500,
        listed_pods: 1_000,
        lists: 2,
        listing_clients: 4,
        config_maps: 2_000,
        empty_lists: 20,
    };
}
