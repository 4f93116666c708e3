//! One object of a workload in the API's words. Decides its shape; what is drawn, is drawn here in a fixed order.

use super::profile::{Form, Near, Part, Spread, WorkloadProfile};
use super::{ANNOTATION_EXIT_CODE, ANNOTATION_LIFETIME, LABEL_GROUP, LABEL_MIN_MEMBER};
use crate::dice::{Dice, Span};
use crate::duration::write_ms;
use serde_json::{Map, Value, json};

/// Sizes come in so many steps, small ones more often: a cluster has few templates, not one for each object.
const STEPS: u64 = 8;
/// Objects that others may want to be near to, or away from, share this many tiers.
const TIERS: u64 = 10;
const LABEL_TIER: &str = "tier";

pub(super) struct Object<'a> {
    pub profile: &'a WorkloadProfile,
    pub part: &'a Part,
    pub seed: u64,
    pub number: u64,
    pub size: u64,
}

impl Object<'_> {
    pub fn manifests(&self, dice: &mut Dice) -> Vec<Value> {
        let name = format!("{}-{}-{:06}", self.part.name, self.seed, self.number);
        let namespaces = &self.profile.namespaces;
        let drawn = usize::try_from(dice.below(namespaces.len() as u64)).unwrap_or(0);
        let namespace = &namespaces[drawn];
        let labels = self.labels(&name, dice);
        let spec = self.pod_spec(&labels, dice);
        match self.part.form {
            Form::Pod | Form::Gang => (0..self.size)
                .map(|member| {
                    let own = if self.part.form == Form::Gang { format!("{name}-{member}") } else { name.clone() };
                    let metadata = json!({"name": own, "namespace": namespace, "labels": labels});
                    let metadata = with_annotations(metadata, &self.annotations(dice));
                    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
                })
                .collect(),
            Form::Deployment => {
                let template = with_annotations(json!({ "labels": labels }), &self.annotations(dice));
                vec![json!({
                    "apiVersion": "apps/v1", "kind": "Deployment",
                    "metadata": {"name": name, "namespace": namespace, "labels": labels},
                    "spec": {"replicas": self.size, "selector": {"matchLabels": {"app": name}},
                        "template": {"metadata": template, "spec": spec}},
                })]
            }
            Form::Job => {
                let template = with_annotations(json!({ "labels": labels }), &self.annotations(dice));
                vec![json!({
                    "apiVersion": "batch/v1", "kind": "Job",
                    "metadata": {"name": name, "namespace": namespace, "labels": labels},
                    "spec": {"completions": self.size, "parallelism": self.size,
                        "template": {"metadata": template, "spec": spec}},
                })]
            }
        }
    }

    fn labels(&self, name: &str, dice: &mut Dice) -> Map<String, Value> {
        let mut labels: Map<String, Value> =
            self.part.labels.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        labels.insert("app".into(), json!(name));
        labels.insert("part".into(), json!(self.part.name));
        labels.insert(LABEL_TIER.into(), json!(format!("t{}", dice.below(TIERS))));
        if self.part.form == Form::Gang {
            let least = (self.size * u64::from(self.part.min_member_percent)).div_ceil(100).max(1);
            labels.insert(LABEL_GROUP.into(), json!(name));
            labels.insert(LABEL_MIN_MEMBER.into(), json!(least.to_string()));
        }
        labels
    }

    /// What hollow machines read.
    fn annotations(&self, dice: &mut Dice) -> Map<String, Value> {
        let mut annotations = Map::new();
        if let Some(span) = self.part.lifetime_ms {
            annotations.insert(ANNOTATION_LIFETIME.into(), json!(write_ms(dice.between(span))));
        }
        if dice.percent(self.part.failing_percent) {
            annotations.insert(ANNOTATION_EXIT_CODE.into(), json!("1"));
        }
        annotations
    }

    fn pod_spec(&self, labels: &Map<String, Value>, dice: &mut Dice) -> Value {
        let part = self.part;
        let milli = stepped(part.milli_cpu, dice).div_ceil(10) * 10;
        let mebi = stepped(part.memory_bytes, dice).div_ceil(1 << 20);
        let mut requests = json!({"cpu": format!("{milli}m"), "memory": format!("{mebi}Mi")});
        let mut limits = json!({"memory": format!("{mebi}Mi")});
        let gpus = dice.between(part.gpus);
        if gpus > 0 {
            requests[&part.gpu_resource] = json!(gpus.to_string());
            limits[&part.gpu_resource] = json!(gpus.to_string());
        }
        let mut spec = json!({
            "containers": [{"name": "main", "image": part.image,
                "resources": {"requests": requests, "limits": limits}}],
        });
        if part.form != Form::Deployment {
            spec["restartPolicy"] = json!("Never");
        }
        if !part.priority_class.is_empty() {
            spec["priorityClassName"] = json!(part.priority_class);
        }
        if !part.node_selector.is_empty() {
            spec["nodeSelector"] = json!(part.node_selector);
        }
        if !part.tolerations.is_empty() {
            spec["tolerations"] = json!(part.tolerations);
        }
        if !part.spread.is_empty() {
            let app = json!({"matchLabels": {"app": labels["app"]}});
            spec["topologySpreadConstraints"] = part.spread.iter().map(|one| spread(one, &app)).collect();
        }
        if !part.near.is_empty() {
            spec["affinity"] = affinity(&part.near, labels, dice);
        }
        spec
    }
}

fn with_annotations(mut metadata: Value, annotations: &Map<String, Value>) -> Value {
    if !annotations.is_empty() {
        metadata["annotations"] = Value::Object(annotations.clone());
    }
    metadata
}

/// One of a few sizes between both ends.
fn stepped(span: Span, dice: &mut Dice) -> u64 {
    let step = dice.below(STEPS).min(dice.below(STEPS));
    span.min + span.max.saturating_sub(span.min) / (STEPS - 1) * step
}

fn spread(one: &Spread, selector: &Value) -> Value {
    let otherwise = if one.required { "DoNotSchedule" } else { "ScheduleAnyway" };
    json!({"topologyKey": one.over, "maxSkew": one.max_skew, "whenUnsatisfiable": otherwise, "labelSelector": selector})
}

fn affinity(all: &[Near], labels: &Map<String, Value>, dice: &mut Dice) -> Value {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let mut affinity = json!({});
    for near in all {
        // The draw comes first, so that it does not hang on what is asked for.
        let tier = format!("t{}", dice.below(TIERS));
        let chosen = if near.to_own { json!({"app": labels["app"]}) } else { json!({ LABEL_TIER: tier }) };
        let term = json!({"labelSelector": {"matchLabels": chosen}, "topologyKey": near.over});
        let kind = if near.apart { "podAntiAffinity" } else { "podAffinity" };
        let (list, term) = match near.required {
            true => (REQUIRED, term),
            false => (PREFERRED, json!({"weight": near.weight, "podAffinityTerm": term})),
        };
        match affinity[kind][list].as_array_mut() {
            Some(terms) => terms.push(term),
            None => affinity[kind][list] = json!([term]),
        }
    }
    affinity
}
