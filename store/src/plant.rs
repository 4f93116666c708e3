//! Bugs of known classes that the simulation plants, one at a time, to see that its checkers find them. No build that ships
//! contains any.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// A follower counts an entry as applied without applying it.
    IndexWithoutEntry,
    /// Opening the log forgets its last entry, so that its revision is given again.
    ForgottenTail,
    /// A watch that is too old goes on at the oldest revision, without a word.
    SkippedGap,
    /// A member that believes to lead answers reads without asking the others.
    DeposedRead,
    /// A write is called durable before the disk was asked.
    EarlyFsync,
    /// A snapshot lacks the newest revision that it claims to hold.
    OldSnapshot,
    /// A snapshot does not say who belongs to the group.
    ForgottenMembers,
    /// A new member gets the highest number that is free now.
    ReusedNumber,
    /// A revoked lease leaves a key behind.
    HalfRevoked,
    /// Leases do not run out.
    EternalLease,
    /// A leader that leads again goes on counting where it stopped.
    OldDeadlines,
    /// A leader renews leases although no majority follows it any more.
    DeposedRenewal,
    /// A lease that is granted again under an old number has what was left of the one before.
    KeptDeadline,
    /// A lease that has run out is renewed while it is being revoked.
    LateRenewal,
    /// A deposed leader has its successor revoke what has run out for itself.
    DeposedExpiry,
    /// A member whose disk is full takes writes.
    FullDiskIgnored,
    /// A leader whose disk is full goes on leading.
    FullDiskLeads,
    /// The place of a superseded value is taken from the entry after the one that wrote it.
    NextEntry,
    /// Log segments go although superseded values are in them.
    EarlyRelease,
    /// A member whose directory was lost takes part again without asking.
    LostDirectory,
    /// Which directories other members have is forgotten when a member ends.
    #[cfg(test)]
    ForgetfulWitness,
    /// A member does not see that there is space again.
    #[cfg(test)]
    FullDiskForever,
}

/// Whether the simulation that this runs in has planted it.
#[cfg(test)]
pub fn planted(plant: Plant) -> bool {
    crate::sim::planted(plant)
}

#[cfg(not(test))]
pub const fn planted(_: Plant) -> bool {
    false
}
