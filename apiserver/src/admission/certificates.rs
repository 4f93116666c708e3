//! CertificateApproval, CertificateSigning and CertificateSubjectRestriction: who may approve and sign requests for a signer's
//! certificates, and which subject nobody gets. Decides by the authoriser's verbs `approve` and `sign` on signers.

use super::{Admission, Attributes, Operation};
use crate::auth::authz::Attributes as Asked;
use crate::http::Outcome;
use crate::kinds::certificatesigningrequest::parse_request;
use crate::kinds::value::str_at;
use gantry_apimachinery::kinds::CERTIFICATE_SIGNING_REQUEST;
use gantry_apimachinery::status::Status;
use serde_json::Value;

/// Its certificates are identities to the API server; the group may do everything.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

pub struct Certificates;

impl Admission for Certificates {
    fn validate(&self, attributes: &Attributes<'_>, object: &Value) -> Outcome<()> {
        let call = attributes.call;
        if call.kind() != &CERTIFICATE_SIGNING_REQUEST {
            return Ok(());
        }
        let signer = str_at(attributes.old.unwrap_or(object), "spec.signerName");
        let why = match (attributes.operation, call.subresource, attributes.old) {
            (Operation::Create, None, _) if signer == CLIENT_SIGNER && asks_for_masters(object) => {
                format!("use of {signer} signer with {MASTERS} group is not allowed")
            }
            (Operation::Update, Some("approval"), _) if !may(attributes, "approve", signer) => {
                format!("user not permitted to approve requests with signerName {signer:?}")
            }
            (Operation::Update, Some("status"), Some(old))
                if signs(object, old) && !may(attributes, "sign", signer) =>
            {
                format!("user not permitted to sign requests with signerName {signer:?}")
            }
            _ => return Ok(()),
        };
        Err(Status::forbidden(&call.kind().resource(), attributes.name, &why).into())
    }
}

fn signs(new: &Value, old: &Value) -> bool {
    ["certificate", "conditions"].iter().any(|field| new["status"][field] != old["status"][field])
}

fn asks_for_masters(object: &Value) -> bool {
    parse_request(str_at(object, "spec.request"))
        .is_ok_and(|request| request.organizations.iter().any(|o| o == MASTERS))
}

/// The signer by its name, or all signers of its domain.
fn may(attributes: &Attributes<'_>, verb: &str, signer: &str) -> bool {
    let call = attributes.call;
    let of_domain = signer.split_once('/').map(|(domain, _)| format!("{domain}/*")).unwrap_or_default();
    [signer, &of_domain].into_iter().any(|name| {
        let what = Asked { verb, group: call.kind().group, resource: "signers", name, ..Asked::default() };
        call.core.authorizer.authorize(call.core, call.user, &what).is_allowed()
    })
}
