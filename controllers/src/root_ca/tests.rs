//! Every live namespace has the certificate, also after somebody changed it.

use gantry_apimachinery::kinds;
use serde_json::json;

use super::core::reconcile;
use super::types::{NAME, Observed};
use crate::sim::World;

#[test]
fn the_certificate_is_published_and_put_back() {
    let mut world = World::new();
    world.create(&kinds::NAMESPACE, json!({"metadata": {"name": "a"}})).unwrap();
    let look = |world: &World, pem: &str| {
        let namespace = world.get(&kinds::NAMESPACE, "", "a").unwrap();
        reconcile(
            &Observed { namespace, published: world.get(&kinds::CONFIG_MAP, "a", NAME), root_ca: pem.into() },
            world.now,
        )
    };
    assert!(look(&world, "").is_settled(), "nothing to publish");
    world.apply(&look(&world, "PEM")).unwrap();
    assert!(look(&world, "PEM").is_settled());
    world.edit(&kinds::CONFIG_MAP, "a", NAME, |map| map["data"]["ca.crt"] = json!("forged"));
    world.apply(&look(&world, "PEM")).unwrap();
    assert_eq!(world.raw(&kinds::CONFIG_MAP, "a", NAME).unwrap()["data"]["ca.crt"], "PEM");
    assert!(look(&world, "PEM").is_settled());
}
