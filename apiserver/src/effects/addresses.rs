//! Candidates for cluster addresses and node ports. Decides in which order free ones are tried; whether one is free is decided by
//! the transaction that takes it.

use std::net::Ipv4Addr;

/// The Services' network.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    base: u32,
    size: u32,
}

impl Network {
    pub fn new((base, prefix): (Ipv4Addr, u8)) -> Self {
        let size = 1u32.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
        Self { base: u32::from(base) & !(size.wrapping_sub(1)), size }
    }

    /// Usable addresses: without the network's own and its last.
    pub fn contains(&self, ip: Ipv4Addr) -> bool {
        let at = u32::from(ip).wrapping_sub(self.base);
        at > 0 && at < self.size.saturating_sub(1)
    }

    /// The first address that `taken` does not have, walking from a random one through the whole network.
    pub fn pick(&self, entropy: u64, taken: impl Fn(Ipv4Addr) -> bool) -> Option<Ipv4Addr> {
        let usable = self.size.saturating_sub(2);
        walk(u64::from(usable), entropy)
            .map(|at| Ipv4Addr::from(self.base + 1 + u32::try_from(at).expect("below the network's size")))
            .find(|ip| !taken(*ip))
    }
}

/// The first port of the inclusive range that `taken` does not have, walking from a random one.
pub fn pick_port((first, last): (u16, u16), entropy: u64, taken: impl Fn(u16) -> bool) -> Option<u16> {
    let count = u64::from(last.saturating_sub(first)) + 1;
    walk(count, entropy).map(|at| first + u16::try_from(at).expect("below the range's size")).find(|port| !taken(*port))
}

fn walk(count: u64, entropy: u64) -> impl Iterator<Item = u64> {
    let start = if count == 0 { 0 } else { entropy % count };
    (0..count).map(move |step| (start + step) % count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_usable_address_is_found_once() {
        let network = Network::new((Ipv4Addr::new(10, 0, 0, 7), 29));
        let mut taken = BTreeSet::new();
        while let Some(ip) = network.pick(12_345, |ip| taken.contains(&ip)) {
            assert!(network.contains(ip) && taken.insert(ip));
        }
        let expect: BTreeSet<_> = (1..=6).map(|n| Ipv4Addr::new(10, 0, 0, n)).collect();
        assert_eq!(taken, expect);
        assert!(!network.contains(Ipv4Addr::new(10, 0, 0, 0)) && !network.contains(Ipv4Addr::new(10, 0, 0, 7)));
        assert!(!network.contains(Ipv4Addr::new(10, 0, 1, 1)));
    }

    #[test]
    fn ports_wrap_around() {
        assert_eq!(pick_port((30, 32), 1, |port| port == 31 || port == 32), Some(30));
        assert_eq!(pick_port((30, 32), 7, |_| true), None);
    }
}
