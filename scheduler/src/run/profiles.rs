//! The file that says which pods a scheduler places and how. Decides what is a mistake in it.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use crate::class::Profile;
use crate::plugins::PLUGINS;

/// A score may count at most this much more than one of weight 1.
const MOST: i64 = 100;

/// `profiles:` by the `schedulerName` of their pods.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profiles {
    profiles: Vec<One>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct One {
    scheduler_name: String,
    /// By plugin: what its score counts, 0 to 100. The others count as usual.
    #[serde(default)]
    weights: BTreeMap<String, i64>,
    /// A walk stops after so many machines that would do.
    #[serde(default)]
    enough: Option<usize>,
}

impl Profiles {
    /// The name of the first profile, which the scheduler goes by, and all of them; or what is wrong and where.
    pub fn checked(self) -> Result<(String, HashMap<String, Profile>), String> {
        let mut all = HashMap::new();
        let mut first = None;
        for (at, one) in self.profiles.into_iter().enumerate() {
            let path = format!("profiles[{at}]");
            if one.scheduler_name.is_empty() {
                return Err(format!("{path}.schedulerName: a name is needed"));
            }
            for (plugin, weight) in &one.weights {
                let scoring: Vec<&str> = PLUGINS.iter().filter(|p| p.score.is_some()).map(|p| p.name).collect();
                if !scoring.contains(&plugin.as_str()) {
                    let scoring = scoring.join(", ");
                    return Err(format!("{path}.weights.{plugin}: there is no such score; there are {scoring}"));
                }
                if !(0..=MOST).contains(weight) {
                    return Err(format!("{path}.weights.{plugin}: {weight} is not from 0 to {MOST}"));
                }
            }
            if one.enough == Some(0) {
                return Err(format!("{path}.enough: at least 1 machine is needed"));
            }
            first.get_or_insert_with(|| one.scheduler_name.clone());
            let profile = Profile { weights: one.weights.into_iter().collect(), enough: one.enough };
            if all.insert(one.scheduler_name.clone(), profile).is_some() {
                return Err(format!("{path}.schedulerName: {} is there twice", one.scheduler_name));
            }
        }
        let first = first.ok_or("profiles: at least one is needed")?;
        Ok((first, all))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(profiles: Value) -> Result<(String, HashMap<String, Profile>), String> {
        serde_json::from_value::<Profiles>(json!({"profiles": profiles})).map_err(|e| e.to_string())?.checked()
    }

    #[test]
    fn profiles_are_known_by_their_scheduler_name() {
        let pack = json!({"schedulerName": "pack", "weights": {"Packing": 5, "ResourcesFit": 0}, "enough": 1000});
        let (name, all) = checked(json!([{"schedulerName": "default-scheduler"}, pack])).unwrap();
        assert_eq!((name.as_str(), all.len()), ("default-scheduler", 2));
        assert_eq!((all["pack"].weights["Packing"], all["pack"].enough), (5, Some(1000)));
    }

    #[test]
    fn mistakes_are_named_by_their_field() {
        let check = |profiles: Value, expect: &str| {
            let why = checked(profiles).unwrap_err();
            assert!(why.contains(expect), "{why}");
        };
        check(json!([]), "profiles: at least one");
        check(json!([{"schedulerName": ""}]), "profiles[0].schedulerName");
        check(json!([{"schedulerName": "a"}, {"schedulerName": "a"}]), "profiles[1].schedulerName: a is there twice");
        check(json!([{"schedulerName": "a", "weights": {"Pack": 1}}]), "profiles[0].weights.Pack: there is no such");
        check(json!([{"schedulerName": "a", "weights": {"Packing": -1}}]), "profiles[0].weights.Packing: -1 is not");
        check(json!([{"schedulerName": "a", "enough": 0}]), "profiles[0].enough");
        check(json!([{"schedulerName": "a", "plugins": {}}]), "plugins");
    }
}
