//! The size quota: when the leader raises the alarm, when it clears it, and which commands an alarm answers before they
//! reach the log. What the alarm refuses is `mvcc`'s decision, the same on every member.

use super::Handle;
use crate::api::StoreError;
use crate::limits;
use crate::mvcc::{Alarm, AlarmKind, Command, Mvcc, Reply};

/// The alarm that has to come before `commands`, if they may make the store larger than `quota` bytes; 0 = no quota.
pub fn raise(view: &Mvcc, quota: u64, member: u64, commands: &[Command]) -> Option<Command> {
    if quota == 0 || view.alarmed(AlarmKind::NoSpace) {
        return None;
    }
    let growth = |command: &Command| match command {
        Command::Txn(txn) => limits::growth(txn) as u64,
        _ => 0,
    };
    let growth: u64 = commands.iter().map(growth).sum();
    let exceeds = growth > 0 && view.stored_bytes() + growth > quota;
    exceeds.then_some(Command::Alarm { alarm: Alarm { kind: AlarmKind::NoSpace, member }, raise: true })
}

/// What clears the alarms again: the store has become a tenth smaller than it may be.
pub fn clear(view: &Mvcc, quota: u64) -> Vec<Command> {
    if quota > 0 && view.stored_bytes() > quota / 10 * 9 {
        return Vec::new();
    }
    let space = view.alarms().filter(|alarm| alarm.kind == AlarmKind::NoSpace);
    space.map(|alarm| Command::Alarm { alarm, raise: false }).collect()
}

/// The answers to what the alarms refuse, by the place of each command.
#[derive(Debug, Default)]
pub struct Refusals(Vec<Option<StoreError>>);

impl Refusals {
    /// Takes out of `commands` what the alarms refuse.
    pub fn sift(view: &Mvcc, commands: Vec<Command>) -> (Vec<Command>, Self) {
        if view.alarms().next().is_none() {
            return (commands, Self::default());
        }
        let refusals: Vec<_> = commands.iter().map(|command| view.check_alarms(command).err()).collect();
        let kept = commands.into_iter().zip(&refusals).filter(|(_, refusal)| refusal.is_none());
        (kept.map(|(command, _)| command).collect(), Self(refusals))
    }

    /// Puts the refusals between the replies to what was kept.
    pub fn merge(self, replies: Vec<Reply>) -> Vec<Reply> {
        if self.0.is_empty() {
            return replies;
        }
        let mut replies = replies.into_iter();
        self.0.into_iter().filter_map(|refusal| refusal.map(Reply::Refused).or_else(|| replies.next())).collect()
    }
}

impl Handle {
    /// Takes out what the alarms refuse, if this member leads: what it has applied is then new enough to say so.
    pub fn sift(&self, commands: Vec<Command>) -> (Vec<Command>, Refusals) {
        if self.is_leader() {
            self.hub.look(|state| Refusals::sift(state, commands))
        } else {
            (commands, Refusals::default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Op, Txn};
    use crate::mvcc::{Entry, apply};

    fn put(key: &'static str, len: usize) -> Command {
        Command::Txn(Txn { success: vec![Op::put(key, vec![0; len])], ..Txn::default() })
    }

    fn delete(key: &'static str) -> Command {
        Command::Txn(Txn { success: vec![Op::delete(key)], ..Txn::default() })
    }

    fn run(mvcc: &mut Mvcc, commands: Vec<Command>) -> Vec<Reply> {
        apply(mvcc, &Entry { time_ms: 0, commands }).unwrap().replies
    }

    #[test]
    fn the_alarm_is_raised_by_what_would_exceed_the_quota_and_cleared_below_nine_tenths() {
        let mut mvcc = Mvcc::default();
        run(&mut mvcc, vec![put("a", 499)]);
        let history = mvcc.stored_bytes() - 500;
        let quota = mvcc.stored_bytes() + 500;
        assert_eq!(raise(&mvcc, quota, 7, &[put("b", 499)]), None, "exactly full");
        assert_eq!(raise(&mvcc, quota, 7, &[put("b", 300), put("c", 198), delete("a")]), None);
        assert_eq!(raise(&mvcc, 0, 7, &[put("b", 5_000)]), None, "no quota");
        assert_eq!(raise(&mvcc, 1, 7, &[delete("a")]), None, "what only deletes is never too much");
        let alarm = raise(&mvcc, quota, 7, &[put("b", 250), put("c", 250)]).unwrap();
        assert_eq!(alarm, Command::Alarm { alarm: Alarm { kind: AlarmKind::NoSpace, member: 7 }, raise: true });
        run(&mut mvcc, vec![alarm.clone()]);
        assert_eq!(raise(&mvcc, quota, 7, &[put("b", 5_000)]), None, "once is enough");
        assert_eq!(clear(&mvcc, mvcc.stored_bytes() * 10 / 9 - 10), []);
        let Command::Alarm { alarm, .. } = alarm else { panic!("not an alarm") };
        assert_eq!(clear(&mvcc, mvcc.stored_bytes() * 10 / 9 + 20), [Command::Alarm { alarm, raise: false }]);
        assert!(history > 0);
    }

    #[test]
    fn an_alarm_refuses_puts_and_grants_and_lets_the_way_out_go() {
        let mut mvcc = Mvcc::default();
        let alarm = Alarm { kind: AlarmKind::NoSpace, member: 1 };
        let grant = Command::Grant { id: crate::api::LeaseId(5), ttl_s: 9 };
        run(&mut mvcc, vec![put("a", 1), put("b", 1), grant.clone(), Command::Alarm { alarm, raise: true }]);
        let hash = mvcc.hash();
        let nested = Txn { success: vec![Op::put("n", "1")], ..Txn::default() };
        let untaken = Command::Txn(Txn { failure: vec![Op::Txn(Box::new(nested))], ..Txn::default() });
        let revoke = Command::Revoke { id: crate::api::LeaseId(5) };
        let compact = Command::Compact(crate::mvcc::Compact { revision: crate::api::Revision(2), check: None });
        let commands = vec![put("c", 1), delete("a"), untaken, grant, revoke, compact];
        let refused = [true, false, true, true, false, false];
        let is_refused = |reply: &Reply| matches!(reply, Reply::Refused(StoreError::NoSpace));
        // The same answers whether the leader or the state machine gives them.
        let (kept, refusals) = Refusals::sift(&mvcc, commands.clone());
        assert_eq!(kept.len(), 3);
        let mut sifted = mvcc.clone();
        let replies = refusals.merge(run(&mut sifted, kept));
        assert_eq!(replies.iter().map(is_refused).collect::<Vec<_>>(), refused);
        let replies = run(&mut mvcc, commands);
        assert_eq!(replies.iter().map(is_refused).collect::<Vec<_>>(), refused);
        assert_eq!((sifted.hash(), mvcc.hash() == hash), (mvcc.hash(), false));
        run(&mut mvcc, vec![Command::Alarm { alarm, raise: false }]);
        assert!(!is_refused(&run(&mut mvcc, vec![put("c", 1)])[0]));
        mvcc.validate();
    }
}
