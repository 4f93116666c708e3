//! The arithmetic of a rollout: how many pods each set may have next. Decides numbers only; the bounds (`maxSurge`,
//! `maxUnavailable`) hold for whatever it is given. Follows Kubernetes' deployment controller.

use super::types::Deployment;

/// What the arithmetic needs to know of one set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Wished for.
    pub replicas: i32,
    pub available: i32,
}

/// The new set's next size, given all wished-for pods of all sets.
pub fn new_set(deployment: &Deployment, new: i32, all_sets: i32) -> i32 {
    let wanted = deployment.replicas();
    if new >= wanted || deployment.is_recreate() {
        return wanted;
    }
    let (surge, _) = deployment.bounds();
    let room = (wanted + surge - all_sets).max(0);
    new + room.min(wanted - new)
}

/// The old sets' next sizes, oldest set first in and out. Pods that are not available go first, because they cost nothing.
pub fn old_sets(deployment: &Deployment, new: Size, old: &[Size]) -> Vec<i32> {
    let mut next: Vec<i32> = old.iter().map(|s| s.replicas).collect();
    let old_total: i32 = next.iter().sum();
    if old_total == 0 {
        return next;
    }
    let (_, max_unavailable) = deployment.bounds();
    let min_available = deployment.replicas() - max_unavailable;
    let new_unavailable = (new.replicas - new.available).max(0);
    let may_go = old_total + new.replicas - min_available - new_unavailable;
    if may_go <= 0 {
        return next;
    }
    let mut budget = may_go;
    for (set, next) in old.iter().zip(&mut next) {
        let unhealthy = (set.replicas - set.available).clamp(0, budget);
        *next -= unhealthy;
        budget -= unhealthy;
    }
    let available = new.available + old.iter().map(|s| s.available).sum::<i32>();
    let mut budget = (available - min_available).max(0);
    for next in &mut next {
        let gone = (*next).min(budget);
        *next -= gone;
        budget -= gone;
    }
    next
}

/// One set's wish for its share when a deployment with several live sets is scaled.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    pub replicas: i32,
    /// `maxReplicas` when the set was last scaled; the deployment's current number when that is not known.
    pub base: i32,
}

/// Splits a change of the total over the sets in proportion to their sizes; what rounding leaves goes to the first. The
/// sets come in order of preference (the largest first).
pub fn proportional(deployment: &Deployment, sets: &[Share]) -> Vec<i32> {
    let (surge, _) = deployment.bounds();
    let wanted = deployment.replicas();
    let allowed = if wanted > 0 { wanted + surge } else { 0 };
    let to_add = allowed - sets.iter().map(|s| s.replicas).sum::<i32>();
    let mut added = 0;
    let mut next = Vec::with_capacity(sets.len());
    for set in sets {
        let share = share(*set, wanted, allowed, to_add, added);
        next.push(set.replicas + share);
        added += share;
    }
    if let (Some(first), true) = (next.first_mut(), to_add != 0) {
        *first = (*first + to_add - added).max(0);
    }
    next
}

fn share(set: Share, wanted: i32, allowed: i32, to_add: i32, added: i32) -> i32 {
    if set.replicas == 0 || to_add == added {
        return 0;
    }
    let fraction = if wanted == 0 {
        -set.replicas
    } else {
        let scaled = f64::from(set.replicas) * f64::from(allowed) / f64::from(set.base.max(1));
        #[expect(clippy::cast_possible_truncation, reason = "a rounded count of pods fits")]
        let rounded = scaled.round() as i32;
        rounded - set.replicas
    };
    let left = to_add - added;
    if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(replicas: i32, surge: serde_json::Value, unavailable: serde_json::Value) -> Deployment {
        serde_json::from_value(json!({"spec": {"replicas": replicas,
            "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}}))
        .unwrap()
    }

    #[test]
    fn bounds_resolve_percentages() {
        let check = |replicas, surge, unavailable, expect| {
            assert_eq!(deployment(replicas, surge, unavailable).bounds(), expect);
        };
        check(10, json!("25%"), json!("25%"), (3, 2));
        check(1, json!("25%"), json!("25%"), (1, 0));
        check(3, json!(0), json!("10%"), (0, 1));
        check(2, json!(1), json!(5), (1, 2));
        check(4, json!(null), json!(null), (1, 1));
    }

    #[test]
    fn the_new_set_grows_into_the_surge() {
        let d = deployment(10, json!(3), json!(2));
        let check = |new, all, expect| assert_eq!(new_set(&d, new, all), expect);
        check(0, 10, 3);
        check(3, 13, 3);
        check(3, 11, 5);
        check(9, 9, 10);
        check(12, 12, 10);
    }

    #[test]
    fn old_sets_give_up_the_unavailable_first() {
        let d = deployment(10, json!(3), json!(2));
        let size = |replicas, available| Size { replicas, available };
        let check = |new, old: &[Size], expect: &[i32]| assert_eq!(old_sets(&d, new, old), expect);
        check(size(0, 0), &[size(10, 10)], &[8]);
        check(size(3, 0), &[size(10, 10)], &[8]);
        check(size(3, 0), &[size(8, 8)], &[8]);
        check(size(5, 3), &[size(8, 8)], &[5]);
        check(size(5, 5), &[size(8, 5)], &[3]);
        check(size(5, 0), &[size(4, 0), size(4, 4)], &[4, 4]);
        check(size(0, 0), &[size(5, 0), size(8, 8)], &[0, 8]);
        check(size(10, 10), &[size(2, 2), size(1, 1)], &[0, 0]);
    }

    #[test]
    fn scaling_a_rollout_keeps_the_proportions() {
        let d = deployment(20, json!(3), json!(2));
        let share = |replicas| Share { replicas, base: 13 };
        assert_eq!(proportional(&d, &[share(8), share(5)]), [14, 9]);
        let d = deployment(5, json!(1), json!(1));
        assert_eq!(proportional(&d, &[share(8), share(5)]), [4, 2]);
        let d = deployment(0, json!(1), json!(1));
        assert_eq!(proportional(&d, &[share(8), share(5)]), [0, 0]);
    }
}
