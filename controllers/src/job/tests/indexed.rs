//! The pods of indexed jobs: one works on each index.

use super::*;

#[test]
fn indexed_pods_know_their_index() {
    let mut world = world(json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}));
    quiet(&mut world);
    let mut pods: Vec<Value> = world.list::<Value>(&kinds::POD).iter().map(|p| (**p).clone()).collect();
    pods.sort_by_key(|p| p["metadata"]["annotations"][INDEX].to_string());
    for (index, pod) in pods.iter().enumerate() {
        assert_eq!(pod["metadata"]["labels"][INDEX], json!(index.to_string()));
        assert_eq!(pod["spec"]["hostname"], json!(format!("sum-{index}")));
        assert_eq!(pod["spec"]["containers"][0]["env"][0]["name"], "JOB_COMPLETION_INDEX");
    }
    // An index that failed is tried again, the others are not.
    world.agents(|_| false);
    world.end("Failed", |p| p["metadata"]["annotations"][INDEX] == "1");
    world.end("Succeeded", |_| true);
    quiet(&mut world);
    assert_eq!(get(&world).status.completed_indexes, "0,2");
    world.pass(10);
    quiet(&mut world);
    assert_eq!(active_indexes(&world), [1]);
}

#[test]
fn of_an_index_with_several_pods_the_one_furthest_along_stays() {
    let spec = json!({"completions": 4, "parallelism": 4, "completionMode": "Indexed", "backoffLimit": 0});
    let mut world = world(spec);
    let plan = creates(look(&world));
    world.apply(&plan).unwrap();
    world.agents(|pod| pod["metadata"]["annotations"][INDEX] == "2");
    let stay: Vec<String> = world.list::<Pod>(&kinds::POD).iter().map(|p| p.name().to_owned()).collect();
    // A second one of each is as far, but younger; that of index 2 is ready where the first is not. The third ones wait.
    world.pass(20);
    world.apply(&plan).unwrap();
    let second = world.list::<Value>(&kinds::POD).into_iter().find(|p| {
        let name = p["metadata"]["name"].as_str().unwrap();
        p["metadata"]["annotations"][INDEX] == "2" && !stay.iter().any(|known| known == name)
    });
    let second = second.unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    world.agents(|pod| pod["metadata"]["annotations"][INDEX] != "2" || pod["metadata"]["name"] != json!(second));
    world.apply(&plan).unwrap();
    let mut expect: Vec<String> = stay.into_iter().filter(|name| !name.starts_with("sum-2-")).collect();
    expect.push(second);
    expect.sort();
    quiet(&mut world);
    world.agents(|_| false);
    quiet(&mut world);
    let mut left: Vec<String> = world.list::<Pod>(&kinds::POD).iter().map(|p| p.name().to_owned()).collect();
    left.sort();
    assert_eq!((left, active_indexes(&world), counts(&world)), (expect, vec![0, 1, 2, 3], (4, 0, 0)));
    // Nor does the job need a pod of an index that it does not have, or of none.
    for (name, index) in [("sum-2-", json!("7")), ("sum-3-", json!("none"))] {
        let pod = world.list::<Pod>(&kinds::POD).into_iter().find(|p| p.name().starts_with(name)).unwrap();
        world.edit(&kinds::POD, "ns", pod.name(), |p| p["metadata"]["annotations"][INDEX] = index);
    }
    run(&mut world, |_| false);
    assert_eq!(counts(&world), (0, 4, 0));
    assert_eq!(get(&world).status.completed_indexes, "0-3");
}
