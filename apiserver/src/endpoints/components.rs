//! ComponentStatus, the old way to ask how the control plane is: what this server needs, as it answers now. Decides which components
//! there are; nothing of them is stored.

use super::health;
use crate::cache::{EventType, Object};
use crate::http::{Outcome, Response, Verb};
use crate::rest::call::Call;
use crate::rest::output::Writer;
use bytes::BytesMut;
use gantry_apimachinery::status::Status;
use http::StatusCode;
use serde_json::{Value, json};

const OLD: &str = "v1 ComponentStatus is deprecated in v1.19+";

pub async fn serve(call: &Call<'_>, verb: Verb, writer: &Writer) -> Outcome<Response> {
    let mut all = Vec::new();
    for (name, problem) in health::stores(call.core).await {
        let status = component(&name, problem.as_deref()).to_string();
        let object = Object::parse(status.as_bytes(), 0, EventType::Added, &call.served.resource.selectable);
        all.push(object.map_err(Status::internal)?);
    }
    let body = if verb == Verb::Get {
        let one = all.iter().find(|object| &*object.name == call.name).ok_or_else(|| call.not_found())?;
        writer.object(call.served, one)
    } else {
        let mut out = BytesMut::new();
        writer.list_head(call.served, &json!({}), &mut out);
        for (position, object) in all.iter().enumerate() {
            if position > 0 {
                out.extend_from_slice(b",");
            }
            writer.item(call.served, object, &mut out);
        }
        out.extend_from_slice(b"]}");
        out.freeze()
    };
    let response = writer.respond(StatusCode::OK, body)?;
    Ok(crate::pipeline::with_warnings(response, vec![OLD.to_owned()]))
}

fn component(name: &str, problem: Option<&str>) -> Value {
    let mut condition = json!({"type": "Healthy", "status": if problem.is_none() { "True" } else { "False" }});
    match problem {
        None => condition["message"] = "ok".into(),
        Some(why) => condition["error"] = why.into(),
    }
    json!({"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": name}, "conditions": [condition]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_says_that_it_is_well_or_what_is_wrong() {
        let condition = |problem| component("a", problem)["conditions"][0].clone();
        assert_eq!(condition(None), json!({"type": "Healthy", "status": "True", "message": "ok"}));
        assert_eq!(condition(Some("e")), json!({"type": "Healthy", "status": "False", "error": "e"}));
    }
}
