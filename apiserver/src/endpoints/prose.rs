//! The texts of `kubectl explain`: what the Kubernetes API says of each type and field, from the `k8s-openapi` crate.
//!
//! It decides where texts come from, never what a schema is. They are gathered when a document is asked for and dropped
//! with it: clients keep documents by their hash, so few ever ask.

use gantry_apimachinery::openapi::Prose;
use k8s_openapi::api::{
    admissionregistration, apps, authentication, authorization, autoscaling, batch, certificates, coordination, core,
    discovery, events, flowcontrol, networking, node, policy, rbac, resource, scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;
use k8s_openapi::schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

/// Which texts these are: a part of every document's hash.
pub const EDITION: &str = "k8s-openapi 0.29, v1_35";

/// Types by their official names, each with its fields.
pub struct Texts(Map<String, Value>);

impl Texts {
    /// Of one group, which types of other groups may stand in; empty for a group that Kubernetes does not have.
    pub fn of_group(group: &str) -> Self {
        let mut generator = SchemaSettings::draft07().into_generator();
        gather(&mut generator, group);
        Texts(generator.take_definitions(true))
    }

    pub fn of_all_groups() -> Self {
        let mut generator = SchemaSettings::draft07().into_generator();
        GROUPS.iter().for_each(|group| gather(&mut generator, group));
        Texts(generator.take_definitions(true))
    }
}

impl Prose for Texts {
    fn describe(&self, ty: &str, field: Option<&str>) -> Option<String> {
        let mut schema = self.0.get(ty)?;
        if let Some(field) = field {
            schema = schema.get("properties")?.get(field)?;
        }
        schema.get("description")?.as_str().map(str::to_owned)
    }
}

const GROUPS: &[&str] = &[
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// Tells the generator of one type; it finds the types of its fields by itself.
macro_rules! add {
    ($generator:ident: $($ty:ty),+ $(,)?) => {{ $( add_one::<$ty>($generator); )+ }};
}

fn add_one<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

/// The kinds of every group, the ones that are not served yet included: their row is then all they need.
fn gather(to: &mut SchemaGenerator, group: &str) {
    add!(to: meta::v1::APIResourceList, meta::v1::DeleteOptions, meta::v1::Status, meta::v1::Patch, meta::v1::ListMeta);
    match group {
        "" => add!(to: core::v1::Pod, core::v1::Service, core::v1::Endpoints, core::v1::ConfigMap, core::v1::Secret,
            core::v1::Namespace, core::v1::Node, core::v1::Event, core::v1::ServiceAccount, core::v1::Binding,
            core::v1::ComponentStatus,
            core::v1::PodTemplate, core::v1::ReplicationController, core::v1::ResourceQuota, core::v1::LimitRange,
            core::v1::PersistentVolume, core::v1::PersistentVolumeClaim, policy::v1::Eviction,
            autoscaling::v1::Scale, authentication::v1::TokenRequest),
        "admissionregistration.k8s.io" => add!(to: admissionregistration::v1::MutatingWebhookConfiguration,
            admissionregistration::v1::ValidatingWebhookConfiguration,
            admissionregistration::v1::ValidatingAdmissionPolicy,
            admissionregistration::v1::ValidatingAdmissionPolicyBinding),
        "apiextensions.k8s.io" => add!(to: apiextensions::v1::CustomResourceDefinition),
        "apiregistration.k8s.io" => add!(to: apiregistration::v1::APIService),
        "apps" => add!(to: apps::v1::Deployment, apps::v1::ReplicaSet, apps::v1::DaemonSet, apps::v1::StatefulSet,
            apps::v1::ControllerRevision, autoscaling::v1::Scale),
        "authentication.k8s.io" => add!(to: authentication::v1::TokenReview, authentication::v1::SelfSubjectReview),
        "authorization.k8s.io" => add!(to: authorization::v1::SubjectAccessReview,
            authorization::v1::LocalSubjectAccessReview, authorization::v1::SelfSubjectAccessReview,
            authorization::v1::SelfSubjectRulesReview),
        "autoscaling" => add!(to: autoscaling::v1::Scale, autoscaling::v1::HorizontalPodAutoscaler,
            autoscaling::v2::HorizontalPodAutoscaler),
        "batch" => add!(to: batch::v1::Job, batch::v1::CronJob),
        "certificates.k8s.io" => add!(to: certificates::v1::CertificateSigningRequest),
        "coordination.k8s.io" => add!(to: coordination::v1::Lease),
        "discovery.k8s.io" => add!(to: discovery::v1::EndpointSlice),
        "events.k8s.io" => add!(to: events::v1::Event),
        "flowcontrol.apiserver.k8s.io" => {
            add!(to: flowcontrol::v1::FlowSchema, flowcontrol::v1::PriorityLevelConfiguration)
        }
        "networking.k8s.io" => {
            add!(to: networking::v1::Ingress, networking::v1::IngressClass, networking::v1::NetworkPolicy,
                networking::v1::ServiceCIDR, networking::v1::IPAddress)
        }
        "policy" => add!(to: policy::v1::PodDisruptionBudget, policy::v1::Eviction),
        "rbac.authorization.k8s.io" => {
            add!(to: rbac::v1::Role, rbac::v1::RoleBinding, rbac::v1::ClusterRole, rbac::v1::ClusterRoleBinding)
        }
        "resource.k8s.io" => add!(to: resource::v1::DeviceClass, resource::v1::ResourceClaim,
            resource::v1::ResourceClaimTemplate, resource::v1::ResourceSlice),
        "scheduling.k8s.io" => add!(to: scheduling::v1::PriorityClass),
        "storage.k8s.io" => add!(to: storage::v1::StorageClass, storage::v1::VolumeAttachment, storage::v1::CSINode,
            storage::v1::CSIDriver, storage::v1::CSIStorageCapacity, storage::v1::VolumeAttributesClass),
        "node.k8s.io" => add!(to: node::v1::RuntimeClass),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_apimachinery::kinds::KINDS;
    use gantry_apimachinery::schema::Schema;

    /// The kinds that are Gantry's own have no texts in Kubernetes.
    const OWN: &str = "gantry.dev";
    /// Fields that Kubernetes says nothing of.
    const SILENT: [&str; 1] = ["io.k8s.api.certificates.v1.CertificateSigningRequest.metadata"];

    #[test]
    fn every_field_of_every_kubernetes_kind_has_a_text() {
        for kind in KINDS.iter().filter(|kind| kind.group != OWN) {
            let texts = Texts::of_group(kind.group);
            let ty = Schema::builtin().kind(kind.group, kind.version, kind.kind).expect("a schema");
            assert!(texts.describe(&ty.name(), None).is_some(), "{}", ty.name());
            for field in ty.fields() {
                let path = format!("{}.{}", ty.name(), field.name());
                let told = texts.describe(&ty.name(), Some(field.name())).is_some();
                assert_eq!(told, !SILENT.contains(&path.as_str()), "{path}");
            }
        }
    }

    #[test]
    fn fields_of_other_types_are_found() {
        let texts = Texts::of_group("apps");
        assert!(texts.describe("io.k8s.api.core.v1.Probe", Some("periodSeconds")).is_some());
        assert!(texts.describe("io.k8s.api.core.v1.Probe", Some("nothing")).is_none());
        assert!(Texts::of_group(OWN).describe("io.k8s.api.core.v1.Probe", None).is_none());
        assert!(Texts::of_all_groups().describe("io.k8s.api.batch.v1.JobSpec", Some("parallelism")).is_some());
    }
}
