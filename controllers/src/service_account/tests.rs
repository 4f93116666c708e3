//! Every live namespace gets its account once.

use gantry_apimachinery::kinds;
use serde_json::json;

use super::core::reconcile;
use super::types::Observed;
use crate::sim::World;

#[test]
fn an_account_is_made_once_and_again_when_deleted() {
    let mut world = World::new();
    world.create(&kinds::NAMESPACE, json!({"metadata": {"name": "a"}})).unwrap();
    let look = |world: &World| {
        let namespace = world.get(&kinds::NAMESPACE, "", "a").unwrap();
        reconcile(&Observed { namespace, account: world.get(&kinds::SERVICE_ACCOUNT, "a", "default") }, world.now)
    };
    for _ in 0..2 {
        world.apply(&look(&world)).unwrap();
        assert!(look(&world).is_settled());
        world.delete(&kinds::SERVICE_ACCOUNT, "a", "default", None);
        assert!(!look(&world).is_settled());
    }
    world.edit(&kinds::NAMESPACE, "", "a", |ns| ns["status"]["phase"] = json!("Terminating"));
    assert!(look(&world).is_settled());
}
