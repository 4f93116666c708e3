//! A behaviour of the catalogue, and how the catalogue's files become behaviours. It reads text; it runs nothing.

use crate::special;
use crate::step::Step;
use crate::template::{self, Fixtures, Variables};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What a behaviour needs of the cluster beyond its API server.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// The control loops: default service accounts, garbage collection, namespace deletion.
    Controllers,
    /// A machine that runs pods.
    Nodes,
    /// Kinds and promises that are Gantry's alone.
    Gantry,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Passes,
    /// Known not to hold, and why.
    Pending(String),
}

#[derive(Clone, Debug)]
pub struct Behaviour {
    pub id: String,
    pub area: String,
    /// What must hold.
    pub says: String,
    /// The Kubernetes rule or document that says so.
    pub from: String,
    pub owner: String,
    pub state: State,
    pub needs: BTreeSet<Need>,
    /// Nothing else runs beside it.
    pub alone: bool,
    pub cases: Vec<Variables>,
    pub body: Body,
    pub cleanup: Vec<Value>,
}

#[derive(Clone, Debug)]
pub enum Body {
    Steps(Vec<Value>),
    /// A function of `special`, for what steps cannot say.
    Special(special::Function),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    owner: Option<String>,
    from: Option<String>,
    #[serde(default)]
    needs: BTreeSet<Need>,
    behaviours: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    says: String,
    from: Option<String>,
    owner: Option<String>,
    state: Option<Value>,
    #[serde(default)]
    needs: BTreeSet<Need>,
    #[serde(default)]
    alone: bool,
    form: Option<String>,
    #[serde(default)]
    with: Variables,
    #[serde(default)]
    cases: Vec<Variables>,
    #[serde(default)]
    steps: Vec<Value>,
    #[serde(default)]
    cleanup: Vec<Value>,
    special: Option<String>,
}

/// Steps that several behaviours share, with the variables that each must give.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    #[serde(default)]
    defaults: Variables,
    steps: Vec<Value>,
}

#[derive(Debug)]
pub struct Catalogue {
    pub fixtures: Fixtures,
    pub behaviours: Vec<Behaviour>,
}

/// What runs give every behaviour.
const BUILT_IN: [&str; 6] = ["ns", "ns2", "id", "case", "i", "server"];

/// Reads all files, named by their paths below the catalogue's folder. Every mistake is in the error, one a line.
pub fn read<'f>(files: impl IntoIterator<Item = (&'f str, &'f str)>) -> Result<Catalogue, String> {
    let (mut fixtures, mut forms, mut entries) = (Fixtures::new(), BTreeMap::<String, Form>::new(), Vec::new());
    let mut problems = Vec::new();
    for (name, text) in files {
        let result = match name {
            "fixtures.yaml" => yaml(text).map(|read| fixtures = read),
            "forms.yaml" => yaml(text).map(|read| forms = read),
            _ => yaml::<File>(text).map(|file| entries.push((area(name).to_owned(), file))),
        };
        problems.extend(result.err().map(|error| format!("{name}: {error}")));
    }
    let mut behaviours = Vec::new();
    for (area, file) in entries {
        let defaults = (file.owner, file.from, file.needs);
        for entry in file.behaviours {
            let id = entry.id.clone();
            match complete(&area, &defaults, entry, &forms) {
                Ok(behaviour) => behaviours.push(behaviour),
                Err(error) => problems.push(format!("{id}: {error}")),
            }
        }
    }
    behaviours.sort_by(|a, b| (&a.area, &a.id).cmp(&(&b.area, &b.id)));
    let mut seen = BTreeSet::new();
    for behaviour in &behaviours {
        if !seen.insert(&behaviour.id) {
            problems.push(format!("{}: this id is there twice", behaviour.id));
        }
        problems.extend(mistakes(behaviour, &fixtures).into_iter().map(|line| format!("{}: {line}", behaviour.id)));
    }
    if problems.is_empty() { Ok(Catalogue { fixtures, behaviours }) } else { Err(problems.join("\n")) }
}

fn yaml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    // A name like `y` or `on` is a text here.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

fn area(file: &str) -> &str {
    file.strip_prefix("behaviours/").and_then(|rest| rest.split_once('/')).map_or("", |(area, _)| area)
}

type FileDefaults = (Option<String>, Option<String>, BTreeSet<Need>);

fn complete(
    area: &str,
    defaults: &FileDefaults,
    entry: Entry,
    forms: &BTreeMap<String, Form>,
) -> Result<Behaviour, String> {
    let said = |own: Option<String>, file: &Option<String>, what: &str| {
        own.or_else(|| file.clone()).filter(|text| !text.is_empty()).ok_or_else(|| format!("no {what}"))
    };
    let mut with = entry.with;
    let body = match (&entry.form, entry.special, entry.steps.is_empty()) {
        (None, Some(name), true) => Body::Special(special::find(&name).ok_or_else(|| format!("no function {name:?}"))?),
        (Some(name), None, true) => {
            let form = forms.get(name).ok_or_else(|| format!("no form {name:?}"))?;
            with.extend(
                form.defaults
                    .iter()
                    .filter(|(key, _)| !with.contains_key(*key))
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect::<Vec<_>>(),
            );
            Body::Steps(form.steps.clone())
        }
        (None, None, false) => Body::Steps(entry.steps),
        _ => return Err("steps, or a form, or a function".to_owned()),
    };
    let merged = |case: Variables| with.clone().into_iter().chain(case).collect();
    let cases: Vec<Variables> =
        if entry.cases.is_empty() { vec![with] } else { entry.cases.into_iter().map(merged).collect() };
    Ok(Behaviour {
        area: area.to_owned(),
        says: said(Some(entry.says), &None, "says")?,
        from: said(entry.from, &defaults.1, "from")?,
        owner: said(entry.owner, &defaults.0, "owner")?,
        state: state(entry.state.as_ref())?,
        needs: entry.needs.union(&defaults.2).copied().collect(),
        alone: entry.alone,
        cases,
        body,
        cleanup: entry.cleanup,
        id: entry.id,
    })
}

fn state(value: Option<&Value>) -> Result<State, String> {
    match value {
        None => Ok(State::Passes),
        Some(Value::String(text)) if text == "passes" => Ok(State::Passes),
        Some(value) => match value["pending"].as_str() {
            Some(why) if !why.is_empty() => Ok(State::Pending(why.to_owned())),
            _ => Err(format!("the state is `passes` or {{pending: WHY}}, not {value}")),
        },
    }
}

/// What a reader can see without a server: steps that cannot be read, variables that nothing sets, unknown fixtures.
fn mistakes(behaviour: &Behaviour, fixtures: &Fixtures) -> Vec<String> {
    let mut found = Vec::new();
    let id_fits = behaviour.id.split('.').count() >= 2
        && behaviour.id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c));
    if !id_fits {
        found.push("an id is words in small letters with dots between".to_owned());
    }
    let Body::Steps(steps) = &behaviour.body else { return found };
    for case in &behaviour.cases {
        let mut known: BTreeSet<String> =
            BUILT_IN.iter().map(|name| (*name).to_owned()).chain(case.keys().cloned()).collect();
        for step in steps.iter().chain(&behaviour.cleanup) {
            check_step(step, case, fixtures, &mut known, &mut found);
        }
    }
    found.sort();
    found.dedup();
    found
}

fn check_step(
    raw: &Value,
    case: &Variables,
    fixtures: &Fixtures,
    known: &mut BTreeSet<String>,
    found: &mut Vec<String>,
) {
    let mut used = Vec::new();
    template::names(raw, &mut used);
    // What the inner steps of one set may be used by the next; they are looked at one by one.
    if raw.get("together").is_none() && raw.get("attempt").is_none() {
        found.extend(used.iter().filter(|name| !known.contains(*name)).map(|name| format!("nothing sets ${name}")));
    }
    // Later values do not exist yet: a text in their place is enough to read the step.
    let mut stand_ins: Variables = used.iter().map(|name| (name.clone(), json!("x"))).collect();
    stand_ins.extend(case.clone());
    stand_ins.extend([("i".to_owned(), json!(1)), ("case".to_owned(), json!(1))]);
    let step = template::substitute(raw, &stand_ins)
        .and_then(|value| template::expand(&value, fixtures))
        .and_then(|value| Step::read(&value));
    let step = match step {
        Ok(step) => step,
        Err(error) => return found.push(error),
    };
    if let Some(inner) = raw["together"].as_array().or_else(|| raw["attempt"].as_array()) {
        inner.iter().for_each(|step| check_step(step, case, fixtures, known, found));
    }
    // A path that is all in a variable is not known yet.
    if step.request.is_some() && !raw["do"].as_str().is_some_and(|text| text.contains(" $")) {
        let placed = step.target().and_then(|(_, path)| template::place(path, "n", fixtures));
        found.extend(placed.err());
    }
    if let Some(make) = &step.make {
        found.extend(template::fixture(make.split(' ').next().unwrap_or_default(), fixtures).err());
    }
    let set = step.set.iter().flat_map(Map::keys).chain(step.capture.keys());
    known.extend(set.cloned());
}

impl Behaviour {
    /// Whether anything of it happens in a namespace, and in how many.
    pub fn namespaces(&self) -> usize {
        let Body::Steps(steps) = &self.body else { return 1 };
        let text = steps.iter().map(Value::to_string).collect::<String>();
        if text.contains("$ns2") {
            2
        } else {
            usize::from(["$ns", "\"make\"", " @"].iter().any(|sign| text.contains(sign)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURES: &str = "configmap: {version: v1, kind: ConfigMap, plural: configmaps}\n";
    const FORMS: &str = "crud: {defaults: {name: a}, steps: [{make: $kind $name}]}\n";

    fn catalogue(file: &str) -> Result<Catalogue, String> {
        read([("fixtures.yaml", FIXTURES), ("forms.yaml", FORMS), ("behaviours/lists/x.yaml", file)])
    }

    fn one(rest: &str) -> String {
        format!("owner: o\nfrom: f\nbehaviours:\n- id: a.b\n  says: s\n{rest}\n")
    }

    #[test]
    fn a_file_gives_its_behaviours_what_they_do_not_say() {
        let all = catalogue(&one(
            "  state: {pending: soon}\n  form: crud\n  with: {kind: configmap}\n  cases: [{x: 1}, {x: 2, name: b}]",
        ))
        .unwrap();
        let b = &all.behaviours[0];
        assert_eq!((b.area.as_str(), b.owner.as_str(), b.from.as_str()), ("lists", "o", "f"));
        assert_eq!(b.state, State::Pending("soon".into()));
        assert_eq!(
            (b.cases[0]["name"].clone(), b.cases[1]["name"].clone(), b.cases[1]["kind"].clone()),
            (json!("a"), json!("b"), json!("configmap"))
        );
        assert_eq!(b.namespaces(), 1);
    }

    #[test]
    fn namespaces_are_made_where_they_are_used() {
        let count = |steps: &str| catalogue(&one(&format!("  steps: {steps}"))).unwrap().behaviours[0].namespaces();
        assert_eq!(count("[{do: GET /version}]"), 0);
        assert_eq!(count("[{do: GET @configmap}]"), 1);
        assert_eq!(count("[{make: configmap a, in: $ns2}]"), 2);
    }

    #[test]
    fn mistakes_are_seen_without_a_server() {
        let check = |rest: &str, part: &str| {
            let error = catalogue(&one(rest)).err().unwrap_or_default();
            assert!(error.contains(part), "{part:?} in {error:?}");
        };
        check("  steps: [{do: GET /x, odd: 1}]", "odd");
        check("  steps: [{do: GET @none}]", "no fixture \"none\"");
        check("  steps: [{make: none a}]", "no fixture \"none\"");
        check("  steps: [{do: GET /$late}, {set: {late: 1}}]", "nothing sets $late");
        check("  steps: [{do: GET x}]", "not METHOD PATH");
        check("  steps: [{do: GET /x}, {do: GET /y, close: w}]", "one thing");
        check("  form: none", "no form \"none\"");
        check("  special: none", "no function \"none\"");
        check("  state: soon\n  steps: [{do: GET /x}]", "the state is");
        check("", "steps, or a form, or a function");
        check("  steps: [{do: GET /x}]\n- id: a.b\n  says: s\n  steps: [{do: GET /x}]", "this id is there twice");
        check("  steps: [{do: GET /x}]\n- id: Odd\n  says: s\n  steps: [{do: GET /x}]", "an id is words");
        assert!(
            catalogue(&one("  steps: [{set: {late: 1}}, {together: [{set: {a: 1}}, {do: GET /$a/$late}]}]")).is_ok()
        );
    }
}
