//! IPv4 ranges: the cluster's range cut into equal ranges for the machines. Decides their order and form; never whose they are.

use std::net::Ipv4Addr;

/// A range of addresses, such as `10.244.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    base: u32,
    prefix: u8,
}

impl Cidr {
    /// Reads `A.B.C.D/N`; the address must be the range's first.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let (base, prefix) = (u32::from(address.parse::<Ipv4Addr>().ok()?), prefix.parse().ok()?);
        let cidr = Cidr { base, prefix };
        (prefix <= 32 && base & cidr.mask() == base).then_some(cidr)
    }

    fn mask(self) -> u32 {
        u32::MAX.checked_shl(u32::from(32 - self.prefix)).unwrap_or(0)
    }

    pub fn overlaps(self, other: Cidr) -> bool {
        let mask = self.mask() & other.mask();
        self.base & mask == other.base & mask
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.base), self.prefix)
    }
}

/// A cluster range cut into ranges of `prefix` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges {
    cluster: Cidr,
    prefix: u8,
}

impl Ranges {
    /// `None` when a machine's range would be larger than the cluster's, or there would be more than 65,536.
    pub fn new(cluster: Cidr, prefix: u8) -> Option<Self> {
        (cluster.prefix <= prefix && prefix <= 30 && prefix - cluster.prefix <= 16)
            .then_some(Ranges { cluster, prefix })
    }

    /// How many ranges there are; at least one.
    pub fn count(self) -> u32 {
        1 << (self.prefix - self.cluster.prefix)
    }

    /// The range of this index.
    pub fn get(self, index: u32) -> Cidr {
        Cidr { base: self.cluster.base + (index << (32 - self.prefix)), prefix: self.prefix }
    }

    /// The indexes of the ranges that share an address with this one.
    pub fn overlapped_by(self, cidr: Cidr) -> std::ops::Range<u32> {
        if !self.cluster.overlaps(cidr) {
            return 0..0;
        }
        if cidr.prefix <= self.cluster.prefix {
            return 0..self.count();
        }
        let shift = 32 - self.prefix;
        let first = (cidr.base - self.cluster.base) >> shift;
        let count = 1_u32.checked_shl(u32::from(self.prefix.saturating_sub(cidr.prefix))).unwrap_or(1);
        first..(first + count).min(self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_and_found_again() {
        let ranges = Ranges::new(Cidr::parse("10.244.0.0/16").unwrap(), 24).unwrap();
        assert_eq!((ranges.count(), ranges.get(0).to_string().as_str()), (256, "10.244.0.0/24"));
        assert_eq!(ranges.get(255).to_string(), "10.244.255.0/24");
        let check = |cidr: &str, expect| assert_eq!(ranges.overlapped_by(Cidr::parse(cidr).unwrap()), expect, "{cidr}");
        check("10.244.7.0/24", 7..8);
        check("10.244.7.128/25", 7..8);
        check("10.244.8.0/22", 8..12);
        check("10.0.0.0/8", 0..256);
        check("10.245.0.0/24", 0..0);
    }

    #[test]
    fn refuses_what_is_no_range() {
        for bad in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0.1/24", "a/8", "::/64"] {
            assert_eq!(Cidr::parse(bad), None, "{bad}");
        }
        assert_eq!(Ranges::new(Cidr::parse("10.0.0.0/8").unwrap(), 30), None);
    }
}
