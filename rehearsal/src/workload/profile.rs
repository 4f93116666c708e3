//! What a workload's profile may say, its defaults, and the built-in ones. Decides what is wrong with one; draws nothing.

use crate::dice::Span;
use crate::fields::{Fields, Problem, Result, document};
use crate::fleet::LABEL_RACK;
use serde_json::Value;
use std::collections::BTreeMap;

/// The profiles that need no file: name and text.
pub const BUILT_IN: [(&str, &str); 4] = [
    ("services", include_str!("../../profiles/services.yaml")),
    ("batch", include_str!("../../profiles/batch.yaml")),
    ("affinity", include_str!("../../profiles/affinity.yaml")),
    ("gangs", include_str!("../../profiles/gangs.yaml")),
];

/// The scheduler takes no larger gang.
const GANG: u64 = 512;

#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadProfile {
    /// Objects go to one of these.
    pub namespaces: Vec<String>,
    pub parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Deployment,
    Job,
    /// A pod of nobody.
    Pod,
    /// Pods of nobody that are placed together.
    Gang,
}

/// A kind of object that the workload is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub name: String,
    pub form: Form,
    /// So many objects in proportion to the other parts.
    pub share: u32,
    /// Of a Deployment, a Job's completions, a gang's members.
    pub replicas: Span,
    pub milli_cpu: Span,
    pub memory_bytes: Span,
    pub gpus: Span,
    pub gpu_resource: String,
    pub image: String,
    pub priority_class: String,
    pub labels: BTreeMap<String, String>,
    pub node_selector: BTreeMap<String, String>,
    pub tolerations: Vec<Value>,
    /// `None`: the fleet's profile says it.
    pub lifetime_ms: Option<Span>,
    pub failing_percent: u32,
    pub spread: Vec<Spread>,
    pub near: Vec<Near>,
    pub min_member_percent: u32,
}

/// A topology spread constraint over the object's own pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    pub over: String,
    pub max_skew: u32,
    pub required: bool,
}

/// A pod affinity, or anti-affinity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Near {
    pub over: String,
    pub required: bool,
    /// Away from them instead.
    pub apart: bool,
    /// The object's own pods; else those of a drawn tier.
    pub to_own: bool,
    pub weight: u32,
}

impl WorkloadProfile {
    /// One of [`BUILT_IN`] by its name.
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, text) = BUILT_IN.iter().find(|(one, _)| *one == name)?;
        Some(Self::parse(text).expect("the built-in profiles are tested"))
    }

    pub fn parse(text: &str) -> std::result::Result<Self, Problem> {
        let document = document(text)?;
        let fields = Fields::of("", &document)?;
        let items = fields.items("namespaces")?;
        let mut namespaces: Vec<String> = items
            .into_iter()
            .map(|(at, item)| {
                let name = item.as_str().filter(|name| !name.is_empty()).map(str::to_owned);
                name.ok_or_else(|| Problem { at, why: format!("a namespace's name is needed, not {item}") })
            })
            .collect::<Result<_>>()?;
        if namespaces.is_empty() {
            namespaces.push("default".to_owned());
        }
        let profile = Self { namespaces, parts: fields.list("parts")?.iter().map(part).collect::<Result<_>>()? };
        fields.finish()?;
        if profile.parts.iter().all(|part| part.share == 0) {
            return Err(fields.wrong("parts", "at least one part with a share above 0 is needed"));
        }
        Ok(profile)
    }
}

fn part(fields: &Fields<'_>) -> Result<Part> {
    const FORMS: [(&str, Form); 4] =
        [("Deployment", Form::Deployment), ("Job", Form::Job), ("Pod", Form::Pod), ("Gang", Form::Gang)];
    let form = fields.choice("kind", &FORMS, Form::Deployment)?;
    let most = if form == Form::Gang { GANG } else { 1_000_000 };
    let size = |min, max| Span { min, max };
    let part = Part {
        name: fields.name("name", "load")?,
        form,
        share: fields.small("share", 0..=1_000_000, 1)?,
        replicas: fields.numbers("replicas", 1..=most, Span::exactly(1))?,
        milli_cpu: fields.milli_cpu("cpu", size(100, 1_000))?,
        memory_bytes: fields.bytes("memory", size(128 << 20, 2 << 30))?,
        gpus: fields.numbers("gpus", 0..=1_024, Span::exactly(0))?,
        gpu_resource: fields.text("gpuResource", "nvidia.com/gpu")?,
        image: fields.text("image", "registry.example.com/load:1")?,
        priority_class: fields.text("priorityClassName", "")?,
        labels: fields.texts("labels")?,
        node_selector: fields.texts("nodeSelector")?,
        tolerations: fields.items("tolerations")?.into_iter().map(|(_, one)| one.clone()).collect(),
        lifetime_ms: match fields.raw("lifetime") {
            Some(_) => Some(fields.durations("lifetime", Span::default())?),
            None => None,
        },
        failing_percent: fields.small("failingPercent", 0..=100, 0)?,
        spread: fields.list("spread")?.iter().map(spread).collect::<Result<_>>()?,
        near: fields.list("affinity")?.iter().map(near).collect::<Result<_>>()?,
        min_member_percent: fields.small("minMemberPercent", 1..=100, 100)?,
    };
    fields.finish()?;
    Ok(part)
}

/// `zone`, `rack`, `host`, or any label's key.
fn over(fields: &Fields<'_>) -> Result<String> {
    let word = fields.text("over", "host")?;
    Ok(match word.as_str() {
        "zone" => "topology.kubernetes.io/zone".to_owned(),
        "rack" => LABEL_RACK.to_owned(),
        "host" => "kubernetes.io/hostname".to_owned(),
        "" => return Err(fields.wrong("over", "zone, rack, host or a label's key is needed")),
        _ => word,
    })
}

fn spread(fields: &Fields<'_>) -> Result<Spread> {
    let spread = Spread {
        over: over(fields)?,
        max_skew: fields.small("maxSkew", 1..=1_000_000, 1)?,
        required: fields.flag("required")?,
    };
    fields.finish()?;
    Ok(spread)
}

fn near(fields: &Fields<'_>) -> Result<Near> {
    let near = Near {
        over: over(fields)?,
        required: fields.flag("required")?,
        apart: fields.flag("apart")?,
        to_own: fields.choice("to", &[("own", true), ("tier", false)], true)?,
        weight: fields.small("weight", 1..=100, 100)?,
    };
    fields.finish()?;
    Ok(near)
}
