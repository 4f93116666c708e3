//! Content negotiation. Decides in which encoding and projection a response is written; never writes it.

use super::Outcome;
use gantry_apimachinery::status::Status;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    #[default]
    Json,
    Yaml,
    /// Only for who takes nothing else: JSON is what is stored, and costs nothing to write.
    Protobuf,
}

/// What of an object is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Projection {
    #[default]
    Whole,
    Metadata,
    Table,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Output {
    pub encoding: Encoding,
    pub projection: Projection,
}

/// How a request body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Json,
    Yaml,
    Protobuf,
    JsonPatch,
    MergePatch,
    StrategicPatch,
    ApplyYaml,
}

const ACCEPTED: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
];

/// What a body of another form than this request takes is answered. A custom resource takes no strategic patch.
pub fn not_taken(patches: bool, custom: bool) -> Status {
    match (patches, custom) {
        (false, _) => Status::unsupported_media_type(&ACCEPTED),
        (true, false) => Status::unsupported_media_type(&PATCHES),
        (true, true) => Status::unsupported_media_type(&PATCHES[..3]),
    }
}
const META_GROUP: &str = "meta.k8s.io";

/// Reads `Accept`: the first entry that we can write wins. No header means JSON.
pub fn output(headers: &HeaderMap) -> Outcome<Output> {
    let mut seen = false;
    let mut protobuf = None;
    for header in headers.get_all(ACCEPT) {
        let Ok(text) = header.to_str() else { continue };
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            seen = true;
            match acceptable(entry) {
                Some(output) if output.encoding == Encoding::Protobuf => protobuf = protobuf.or(Some(output)),
                Some(output) => return Ok(output),
                None => {}
            }
        }
    }
    if let Some(output) = protobuf {
        return Ok(output);
    }
    if seen {
        return Err(not_acceptable().into());
    }
    Ok(Output::default())
}

fn not_acceptable() -> Status {
    Status::not_acceptable(&["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"])
}

fn acceptable(entry: &str) -> Option<Output> {
    let mut parts = entry.split(';').map(str::trim);
    let encoding = match parts.next()? {
        "application/json" | "*/*" | "application/*" => Encoding::Json,
        "application/yaml" => Encoding::Yaml,
        "application/vnd.kubernetes.protobuf" => Encoding::Protobuf,
        _ => return None,
    };
    let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let value = |key: &str| parameters.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
    let projection = match (value("as"), value("g"), value("v")) {
        (None, ..) => Projection::Whole,
        // Rows may hold anything, which has no protobuf form here.
        (Some("Table"), ..) if encoding == Encoding::Protobuf => return None,
        (Some("Table"), Some(META_GROUP), Some("v1" | "v1beta1")) => Projection::Table,
        (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), Some(META_GROUP), Some("v1" | "v1beta1")) => {
            Projection::Metadata
        }
        _ => return None,
    };
    Some(Output { encoding, projection })
}

/// Whether the client asks for aggregated discovery, version 2.
pub fn wants_aggregated_discovery(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().filter_map(|header| header.to_str().ok()).flat_map(|text| text.split(',')).any(
        |entry| {
            let has = |part: &str| entry.split(';').any(|p| p.trim() == part);
            has("application/json") && has("g=apidiscovery.k8s.io") && has("v=v2") && has("as=APIGroupDiscoveryList")
        },
    )
}

/// Reads `Content-Type`. A missing one is JSON, as Kubernetes takes it.
pub fn input(headers: &HeaderMap) -> Outcome<Input> {
    let text = headers.get(CONTENT_TYPE).map_or(Ok("application/json"), |header| header.to_str());
    let text = text.unwrap_or("").split(';').next().unwrap_or("").trim();
    Ok(match text {
        "application/json" | "" => Input::Json,
        "application/yaml" => Input::Yaml,
        "application/vnd.kubernetes.protobuf" => Input::Protobuf,
        "application/json-patch+json" => Input::JsonPatch,
        "application/merge-patch+json" => Input::MergePatch,
        "application/strategic-merge-patch+json" => Input::StrategicPatch,
        "application/apply-patch+yaml" => Input::ApplyYaml,
        _ => return Err(Status::unsupported_media_type(&ACCEPTED).into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn accept(text: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(text))])
    }

    #[test]
    fn the_first_entry_that_we_can_write_wins() {
        let out = |encoding, projection| Some(Output { encoding, projection });
        let rows = [
            ("application/json", out(Encoding::Json, Projection::Whole)),
            ("application/vnd.kubernetes.protobuf, application/json", out(Encoding::Json, Projection::Whole)),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                out(Encoding::Json, Projection::Table),
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                out(Encoding::Json, Projection::Metadata),
            ),
            ("application/yaml", out(Encoding::Yaml, Projection::Whole)),
            ("application/vnd.kubernetes.protobuf", out(Encoding::Protobuf, Projection::Whole)),
            ("*/*", out(Encoding::Json, Projection::Whole)),
            ("text/html", None),
            ("application/json;as=Other;g=meta.k8s.io;v=v1", None),
        ];
        for (text, expect) in rows {
            assert_eq!(output(&accept(text)).ok(), expect, "{text}");
        }
        assert_eq!(output(&HeaderMap::new()).ok(), Some(Output::default()));
    }

    #[test]
    fn aggregated_discovery_is_recognised_with_extra_parameters() {
        let text =
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,application/json";
        assert!(wants_aggregated_discovery(&accept(text)));
        assert!(!wants_aggregated_discovery(&accept("application/json")));
    }
}
