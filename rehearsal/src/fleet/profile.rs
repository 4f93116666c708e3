//! What a fleet's profile may say, and its defaults. Decides what is wrong with one; draws nothing.

use crate::dice::Span;
use crate::fields::{Fields, Problem, Result, document};
use std::collections::BTreeMap;

const BUILT_IN: &str = include_str!("../../profiles/fleet.yaml");

#[derive(Clone, Debug, PartialEq)]
pub struct FleetProfile {
    /// What machines' names begin with.
    pub name: String,
    pub region: String,
    pub zones: u32,
    pub racks_per_zone: u32,
    pub classes: Vec<Class>,
    pub pods: Pods,
}

/// A kind of machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    pub name: String,
    /// So many machines in proportion to the other classes.
    pub share: u32,
    pub instance_type: String,
    pub milli_cpu: u64,
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    pub pods: u32,
    /// Kept from pods.
    pub reserved_milli_cpu: u64,
    pub reserved_memory_bytes: u64,
    pub gpus: Option<Gpus>,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// What is on its disk already.
    pub images: Vec<Image>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpus {
    pub resource: String,
    pub count: u32,
    pub product: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub name: String,
    pub size_bytes: u64,
}

/// How pods live on every machine, where their annotations do not say it. Times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pods {
    /// From the sandbox to the process: pulling and starting.
    pub startup_ms: Span,
    /// How long a container runs whose pod is not restarted always.
    pub lifetime_ms: Span,
    /// From SIGTERM to the end.
    pub stopping_ms: Span,
    /// So many of a hundred containers that end do so with exit code 1.
    pub failing_percent: u32,
}

impl FleetProfile {
    /// Three zones, four kinds of machines, one in ten with GPUs.
    pub fn built_in() -> Self {
        Self::parse(BUILT_IN).expect("the built-in profile is tested")
    }

    /// The built-in profile as a file to begin from.
    pub fn built_in_text() -> &'static str {
        BUILT_IN
    }

    pub fn parse(text: &str) -> std::result::Result<Self, Problem> {
        let document = document(text)?;
        let fields = Fields::of("", &document)?;
        let profile = Self {
            name: fields.name("name", "hollow")?,
            region: fields.text("region", "region-1")?,
            zones: fields.small("zones", 1..=1_000, 3)?,
            racks_per_zone: fields.small("racksPerZone", 1..=10_000, 20)?,
            classes: fields.list("classes")?.iter().map(class).collect::<Result<_>>()?,
            pods: pods(fields.inner("pods")?)?,
        };
        fields.finish()?;
        let classes = &profile.classes;
        if classes.is_empty() || classes.len() > 1_000 {
            return Err(fields.wrong("classes", "from 1 to 1000 classes of machines are needed"));
        }
        if classes.iter().all(|class| class.share == 0) {
            return Err(fields.wrong("classes", "the share of every class is 0"));
        }
        let twice = |(at, one): &(usize, &Class)| classes[..*at].iter().any(|other| other.name == one.name);
        if let Some((at, class)) = classes.iter().enumerate().find(twice) {
            return Err(fields.wrong(&format!("classes[{at}].name"), format!("{:?} is there twice", class.name)));
        }
        Ok(profile)
    }
}

fn one(fields: &Fields<'_>, name: &'static str, span: Span) -> Result<u64> {
    if span.min == span.max { Ok(span.min) } else { Err(fields.wrong(name, "one quantity is needed")) }
}

fn class(fields: &Fields<'_>) -> Result<Class> {
    if fields.raw("name").is_none() {
        return Err(fields.wrong("name", "a class needs a name"));
    }
    let name = fields.name("name", "")?;
    let bytes = |name, default| one(fields, name, fields.bytes(name, Span::exactly(default))?);
    let milli = |name, default| one(fields, name, fields.milli_cpu(name, Span::exactly(default))?);
    let class = Class {
        share: fields.small("share", 0..=1_000_000, 1)?,
        instance_type: fields.text("instanceType", &name)?,
        milli_cpu: milli("cpu", 32_000)?,
        memory_bytes: bytes("memory", 128 << 30)?,
        disk_bytes: bytes("disk", 500 << 30)?,
        pods: fields.small("pods", 1..=10_000, 110)?,
        reserved_milli_cpu: milli("reservedCpu", 100)?,
        reserved_memory_bytes: bytes("reservedMemory", 256 << 20)?,
        gpus: fields.inner("gpus")?.map(|gpus| read_gpus(&gpus)).transpose()?,
        labels: fields.texts("labels")?,
        taints: fields.list("taints")?.iter().map(taint).collect::<Result<_>>()?,
        images: fields.list("images")?.iter().map(image).collect::<Result<_>>()?,
        name,
    };
    fields.finish()?;
    match class.milli_cpu % 1_000 {
        0 => Ok(class),
        _ => Err(fields.wrong("cpu", "a machine has whole CPUs")),
    }
}

fn read_gpus(fields: &Fields<'_>) -> Result<Gpus> {
    let gpus = Gpus {
        resource: fields.text("resource", "nvidia.com/gpu")?,
        count: fields.small("count", 1..=1_024, 8)?,
        product: fields.text("product", "")?,
    };
    fields.finish()?;
    match gpus.resource.split_once('/') {
        Some((domain, name)) if !domain.is_empty() && !name.is_empty() => Ok(gpus),
        _ => Err(fields.wrong("resource", format!("{:?} is no resource such as nvidia.com/gpu", gpus.resource))),
    }
}

fn taint(fields: &Fields<'_>) -> Result<Taint> {
    const EFFECTS: [(&str, &str); 3] =
        [("NoSchedule", "NoSchedule"), ("PreferNoSchedule", "PreferNoSchedule"), ("NoExecute", "NoExecute")];
    let (key, value) = (fields.text("key", "")?, fields.text("value", "")?);
    let taint = Taint { key, value, effect: fields.choice("effect", &EFFECTS, "NoSchedule")? };
    fields.finish()?;
    if taint.key.is_empty() { Err(fields.wrong("key", "a taint needs a key")) } else { Ok(taint) }
}

fn image(fields: &Fields<'_>) -> Result<Image> {
    let name = fields.text("name", "")?;
    let image = Image { name, size_bytes: one(fields, "size", fields.bytes("size", Span::exactly(100 << 20))?)? };
    fields.finish()?;
    if image.name.is_empty() { Err(fields.wrong("name", "an image needs a name")) } else { Ok(image) }
}

fn pods(fields: Option<Fields<'_>>) -> Result<Pods> {
    let default = Pods {
        startup_ms: Span { min: 200, max: 800 },
        lifetime_ms: Span { min: 30_000, max: 300_000 },
        stopping_ms: Span { min: 50, max: 500 },
        failing_percent: 0,
    };
    let Some(fields) = fields else { return Ok(default) };
    let pods = Pods {
        startup_ms: fields.durations("startup", default.startup_ms)?,
        lifetime_ms: fields.durations("lifetime", default.lifetime_ms)?,
        stopping_ms: fields.durations("stopping", default.stopping_ms)?,
        failing_percent: fields.small("failingPercent", 0..=100, 0)?,
    };
    fields.finish()?;
    Ok(pods)
}
