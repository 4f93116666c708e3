//! What each team uses and has used: the figure by which teams take turns. A team is a namespace's `gantry.dev/team` label, or the
//! namespace itself.

use std::collections::{BTreeMap, HashMap};

use super::room::Pair;

/// A team's place in the arrays.
pub type TeamId = usize;

/// Half of what was used this long ago still counts.
const HALF_LIFE_S: f64 = 600.0;

#[derive(Debug, Default)]
struct Namespace {
    team: TeamId,
    used: Pair,
    weight: Option<f64>,
}

#[derive(Debug)]
struct Team {
    name: String,
    used: Pair,
    /// CPU in thousandths and bytes of memory, as they were used of late.
    decayed: [f64; 2],
    weight: f64,
}

#[derive(Debug, Default)]
pub struct Teams {
    by_name: HashMap<String, TeamId>,
    teams: Vec<Team>,
    namespaces: HashMap<String, Namespace>,
    sampled_ms: Option<u64>,
}

impl Teams {
    fn id(&mut self, name: &str) -> TeamId {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        self.teams.push(Team { name: name.to_owned(), used: Pair::default(), decayed: [0.0; 2], weight: 1.0 });
        self.by_name.insert(name.to_owned(), self.teams.len() - 1);
        self.teams.len() - 1
    }

    fn namespace(&mut self, name: &str) -> &mut Namespace {
        if !self.namespaces.contains_key(name) {
            let team = self.id(name);
            self.namespaces.insert(name.to_owned(), Namespace { team, ..Namespace::default() });
        }
        self.namespaces.get_mut(name).expect("it was put there just now")
    }

    pub fn of(&mut self, namespace: &str) -> TeamId {
        self.namespace(namespace).team
    }

    pub fn name(&self, team: TeamId) -> &str {
        &self.teams[team].name
    }

    pub fn len(&self) -> usize {
        self.teams.len()
    }

    pub fn is_empty(&self) -> bool {
        self.teams.is_empty()
    }

    /// Which team a namespace belongs to. Its weight is the largest that any of its namespaces names, 1 where none does.
    pub fn set(&mut self, namespace: &str, labels: &BTreeMap<String, String>) {
        let name = labels.get("gantry.dev/team").filter(|team| !team.is_empty()).map_or(namespace, String::as_str);
        let weight = labels.get("gantry.dev/team-weight").and_then(|w| w.parse::<f64>().ok());
        let weight = weight.filter(|w| w.is_finite() && *w > 0.0);
        let to = self.id(name);
        let known = self.namespace(namespace);
        let (from, used) = (known.team, known.used);
        (known.team, known.weight) = (to, weight);
        if from != to {
            self.teams[from].used = self.teams[from].used.plus(used, -1);
            self.teams[to].used = self.teams[to].used.plus(used, 1);
        }
        for team in [from, to] {
            let named = self.namespaces.values().filter(|ns| ns.team == team).filter_map(|ns| ns.weight);
            self.teams[team].weight =
                named.fold(None, |most: Option<f64>, w| Some(most.map_or(w, |m| m.max(w)))).unwrap_or(1.0);
        }
    }

    pub fn count(&mut self, namespace: &str, ask: Pair, sign: i64) {
        let known = self.namespace(namespace);
        known.used = known.used.plus(ask, sign);
        let team = known.team;
        self.teams[team].used = self.teams[team].used.plus(ask, sign);
    }

    /// Time passes: what is used now weighs in, what was used before weighs less.
    pub fn sample(&mut self, now_ms: u64) {
        let since_ms = now_ms.saturating_sub(self.sampled_ms.unwrap_or(now_ms));
        self.sampled_ms = Some(now_ms);
        let kept = (-(since_ms as f64) / 1000.0 / HALF_LIFE_S).exp2();
        for team in &mut self.teams {
            let used = [team.used.cpu_m as f64, team.used.memory as f64];
            for (decayed, used) in team.decayed.iter_mut().zip(used) {
                *decayed = *decayed * kept + used * (1.0 - kept);
            }
        }
    }

    /// The larger of CPU's and memory's part of `all`, now and of late, over the team's weight: who has least goes first.
    pub fn share(&self, team: TeamId, all: Pair) -> f64 {
        let team = &self.teams[team];
        let part = |used: i64, decayed: f64, all: i64| (used as f64 + decayed) / (all.max(1) as f64);
        let cpu = part(team.used.cpu_m, team.decayed[0], all.cpu_m);
        let memory = part(team.used.memory, team.decayed[1], all.memory);
        cpu.max(memory) / team.weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(team: &str, weight: &str) -> BTreeMap<String, String> {
        let pairs = [("gantry.dev/team", team), ("gantry.dev/team-weight", weight)];
        pairs.iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    const ALL: Pair = Pair { cpu_m: 1_000, memory: 1_000 };

    #[test]
    fn the_dominant_part_over_the_weight() {
        let mut teams = Teams::default();
        teams.count("a", Pair { cpu_m: 100, memory: 300 }, 1);
        let a = teams.of("a");
        assert_eq!(teams.share(a, ALL), 0.3);
        teams.set("a", &labels("", "2"));
        assert_eq!(teams.share(a, ALL), 0.15);
        for bad in ["0", "-1", "x", "inf"] {
            teams.set("a", &labels("", bad));
            assert_eq!(teams.share(a, ALL), 0.3, "{bad}");
        }
    }

    #[test]
    fn a_namespace_takes_its_use_along() {
        let mut teams = Teams::default();
        teams.count("a", Pair { cpu_m: 100, memory: 0 }, 1);
        teams.count("b", Pair { cpu_m: 200, memory: 0 }, 1);
        teams.set("a", &labels("red", ""));
        teams.set("b", &labels("red", ""));
        let red = teams.of("a");
        assert_eq!((teams.of("b"), teams.share(red, ALL)), (red, 0.3));
        teams.set("b", &labels("", ""));
        assert_eq!(teams.share(red, ALL), 0.1);
    }

    #[test]
    fn what_was_used_is_forgotten_by_half_lives() {
        let mut teams = Teams::default();
        teams.count("a", Pair { cpu_m: 400, memory: 0 }, 1);
        let a = teams.of("a");
        teams.sample(0);
        teams.sample(600_000);
        assert!((teams.share(a, ALL) - 0.6).abs() < 1e-9);
        teams.count("a", Pair { cpu_m: 400, memory: 0 }, -1);
        teams.sample(1_200_000);
        assert!((teams.share(a, ALL) - 0.1).abs() < 1e-9);
    }
}
