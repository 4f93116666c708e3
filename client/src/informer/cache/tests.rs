//! The copy's changes, event by event and by relist, and that both lead to the same place.

use gantry_apimachinery::meta::{Header, ObjectMeta};
use proptest::prelude::*;

use super::*;

fn object(ns: &str, name: &str, uid: &str, version: u64) -> Entry {
    let metadata = ObjectMeta {
        namespace: ns.into(),
        name: name.into(),
        uid: uid.into(),
        resource_version: version.to_string(),
        labels: BTreeMap::from([("parity".to_owned(), (version % 2).to_string())]),
        ..ObjectMeta::default()
    };
    Arc::new(Header { metadata, ..Header::default() })
}

/// A change as text: `+name@version` new, `~name@version` different, `-name@version` gone.
fn told(changes: &[Change<dyn Held>]) -> Vec<String> {
    let form = |sign: char, o: &Entry| format!("{sign}{}@{}", o.meta().name, o.meta().resource_version);
    changes
        .iter()
        .map(|change| match change {
            Change::Applied { old: None, new } => form('+', new),
            Change::Applied { old: Some(_), new } => form('~', new),
            Change::Deleted(last) => form('-', last),
            Change::Resync => "?".to_owned(),
        })
        .collect()
}

#[test]
fn changes_follow_events() {
    let mut cache = Cache::default();
    assert_eq!(told(&cache.apply(object("n", "a", "u1", 1))), ["+a@1"]);
    assert_eq!(told(&cache.apply(object("n", "a", "u1", 1))), Vec::<String>::new(), "the same version again");
    assert_eq!(told(&cache.apply(object("n", "a", "u1", 2))), ["~a@2"]);
    assert_eq!(told(&cache.apply(object("n", "a", "u2", 5))), ["-a@2", "+a@5"], "made again meanwhile");
    assert_eq!(told(&cache.remove("n", "a", Some(object("n", "a", "u2", 6)))), ["-a@6"], "its last state");
    assert_eq!(told(&cache.remove("n", "a", None)), Vec::<String>::new());
}

#[test]
fn a_list_becomes_the_difference() {
    let mut cache = Cache::default();
    for name in ["a", "b", "c"] {
        cache.apply(object("n", name, name, 1));
    }
    let listed = vec![object("n", "b", "b", 1), object("n", "c", "c", 4), object("n", "d", "d", 3)];
    assert_eq!(told(&cache.replace(listed)), ["-a@1", "~c@4", "+d@3"]);
    assert_eq!(cache.len(), 3);
}

#[test]
fn indexes_and_namespaces_follow() {
    let mut cache = Cache::default();
    cache.apply(object("n", "before", "1", 1));
    cache.add_index("parity", Arc::new(|o: &dyn Held| o.meta().labels.values().cloned().collect()));
    cache.apply(object("n", "b", "2", 3));
    cache.apply(object("n-1", "c", "3", 2));
    let by_index = |cache: &Cache, value: &str| {
        let mut names = vec![];
        cache.each_by_index("parity", value, &mut |o| names.push(o.meta().name.clone()));
        names
    };
    assert_eq!(by_index(&cache, "1"), ["b", "before"]);
    let mut names = vec![];
    cache.each_in_namespace("n", &mut |o| names.push(o.meta().name.clone()));
    assert_eq!(names, ["b", "before"]);
    cache.apply(object("n", "b", "2", 4));
    assert_eq!(by_index(&cache, "1"), ["before"]);
    assert_eq!(by_index(&cache, "0"), ["c", "b"], "as keys sort: n-1/c, n/b");
    cache.remove("n-1", "c", None);
    assert_eq!(by_index(&cache, "0"), ["b"]);
    cache.each_by_index("other", "0", &mut |_| panic!("there is no such index"));
}

#[test]
fn a_view_is_told_of_what_is_there_and_of_every_change() {
    let mut cache = Cache::default();
    cache.apply(object("n", "a", "1", 1));
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let into = seen.clone();
    cache.add_view(Arc::new(move |old: Option<&Entry>, new: Option<&Entry>| {
        let version = |entry: Option<&Entry>| entry.map_or_else(String::new, |e| e.meta().resource_version.clone());
        into.lock().push((version(old), version(new)));
    }));
    cache.apply(object("n", "a", "1", 2));
    cache.replace(vec![object("n", "b", "2", 3)]);
    cache.remove("n", "b", None);
    let expect = [("", "1"), ("1", "2"), ("2", ""), ("", "3"), ("3", "")];
    assert_eq!(*seen.lock(), expect.map(|(old, new)| (old.to_owned(), new.to_owned())));
}

proptest! {
    /// A subscriber that follows the changes of any list holds what the list holds.
    #[test]
    fn following_a_relist_gives_the_list(
        before in proptest::collection::btree_map(0..6_u8, (0..2_u8, 1..4_u64), 0..6),
        after in proptest::collection::btree_map(0..6_u8, (0..2_u8, 4..8_u64), 0..6),
    ) {
        let objects = |state: &BTreeMap<u8, (u8, u64)>| -> Vec<Entry> {
            state.iter().map(|(n, (uid, v))| object("n", &n.to_string(), &format!("{n}{uid}"), *v)).collect()
        };
        let mut cache = Cache::default();
        let mut followed = BTreeMap::new();
        for changes in [cache.replace(objects(&before)), cache.replace(objects(&after))] {
            for change in changes {
                match change {
                    Change::Applied { old, new } => {
                        let was = followed.insert(new.meta().name.clone(), new.clone());
                        prop_assert_eq!(was.map(|o| o.meta().clone()), old.map(|o| o.meta().clone()));
                    }
                    Change::Deleted(last) => { prop_assert!(followed.remove(&last.meta().name).is_some()); }
                    Change::Resync => prop_assert!(false),
                }
            }
        }
        let metas = |all: &[Entry]| all.iter().map(|o| o.meta().clone()).collect::<Vec<_>>();
        let held: Vec<Entry> = followed.into_values().collect();
        prop_assert_eq!(metas(&held), metas(&objects(&after)));
    }
}
