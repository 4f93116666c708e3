//! What the loops read of an APIService: whether its group version is another server's. Decides nothing.

use gantry_apimachinery::meta::{Object, ObjectMeta};
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ApiService {
    pub metadata: ObjectMeta,
    pub spec: ApiServiceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiServiceSpec {
    pub group: String,
    pub version: String,
    pub version_priority: i64,
    pub service: Option<Value>,
}

impl Object for ApiService {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
