//! Volume contents as tables, and the atomic writer on a temporary directory.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::json;
use tokio::sync::Notify;

use super::atomic::write;
use super::*;

fn payload(files: &[(&str, &str, u32)]) -> Payload {
    files.iter().map(|(p, b, mode)| ((*p).to_owned(), File { bytes: b.as_bytes().to_vec(), mode: *mode })).collect()
}

#[test]
fn an_update_moves_one_link_and_leaves_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let read = |p: &str| fs::read_to_string(dir.path().join(p)).ok();
    assert!(write(dir.path(), &payload(&[("a", "1", 0o644), ("sub/b", "2", 0o400)]), None, "t1").unwrap());
    assert_eq!((read("a").as_deref(), read("sub/b").as_deref()), (Some("1"), Some("2")));
    assert_eq!(fs::read_link(dir.path().join("a")).unwrap().to_str(), Some("..data/a"));
    assert_eq!(fs::metadata(dir.path().join("sub/b")).unwrap().mode() & 0o777, 0o400);

    assert!(!write(dir.path(), &payload(&[("a", "1", 0o644), ("sub/b", "2", 0o400)]), None, "t2").unwrap());
    assert!(write(dir.path(), &payload(&[("a", "1", 0o600), ("c", "3", 0o644)]), None, "t3").unwrap());
    assert_eq!((read("a").as_deref(), read("sub/b"), read("c").as_deref()), (Some("1"), None, Some("3")));
    let mut names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["..data", "..t3", "a", "c"]);
}

#[test]
fn paths_cannot_leave_the_volume() {
    let dir = tempfile::tempdir().unwrap();
    for bad in ["../x", "/x", "a/../../x", "", "..x"] {
        assert!(write(dir.path(), &payload(&[(bad, "", 0o644)]), None, "t").is_err(), "{bad:?}");
    }
    assert!(write(dir.path(), &payload(&[("a/..b", "ok", 0o644)]), None, "t").unwrap());
}

fn pod(spec: serde_json::Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"b": "2", "a": "1\n"}}, "spec": spec
    }))
    .unwrap()
}

fn check(volume: serde_json::Value, expect: Result<&[(&str, &str, u32)], &str>) {
    let pod =
        pod(json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "1500m"}}}], "volumes": [volume]}));
    let map: ConfigMap =
        serde_json::from_value(json!({"data": {"k": "v", "l": "w"}, "binaryData": {"bin": "aGk="}})).unwrap();
    let secret: Secret = serde_json::from_value(json!({"data": {"pw": "c2VjcmV0"}})).unwrap();
    let sources = Sources {
        config_maps: [("cm".to_owned(), Arc::new(map))].into(),
        secrets: [("sec".to_owned(), Arc::new(secret))].into(),
    };
    let tokens = [((String::new(), "token".to_owned()), "jwt".to_owned())].into();
    let got =
        project::payload(&pod, &pod.spec.volumes[0], &Machine::default(), &["10.0.0.1".into()], &sources, &tokens);
    match expect {
        Ok(files) => assert_eq!(got.unwrap().unwrap(), payload(files)),
        Err(message) => assert_eq!(got.unwrap_err(), message),
    }
}

#[test]
fn volumes_hold_what_they_declare() {
    let all = [("bin", "hi", 0o644), ("k", "v", 0o644), ("l", "w", 0o644)];
    check(json!({"configMap": {"name": "cm"}}), Ok(&all));
    let items = json!([{"key": "k", "path": "dir/x", "mode": 0o600}]);
    check(json!({"configMap": {"name": "cm", "items": items, "defaultMode": 0o400}}), Ok(&[("dir/x", "v", 0o600)]));
    check(json!({"configMap": {"name": "no", "optional": true}}), Ok(&[]));
    check(json!({"configMap": {"name": "no"}}), Err("configmap \"no\" not found"));
    let absent = json!([{"key": "zz", "path": "x"}]);
    check(json!({"configMap": {"name": "cm", "items": absent}}), Err("references non-existent key: zz in ns/cm"));
    check(json!({"secret": {"secretName": "sec", "defaultMode": 0o440}}), Ok(&[("pw", "secret", 0o440)]));
    let fields = json!({"items": [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "ip", "fieldRef": {"fieldPath": "status.podIP"}},
        {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}},
    ]});
    let labels = [("cpu", "2", 0o644), ("ip", "10.0.0.1", 0o644), ("labels", "a=\"1\\n\"\nb=\"2\"", 0o644)];
    check(json!({"downwardAPI": fields}), Ok(&labels));
    let sources = json!([
        {"serviceAccountToken": {"path": "token"}},
        {"configMap": {"name": "cm", "items": [{"key": "k", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        {"secret": {"name": "sec"}},
    ]);
    let projected =
        [("token", "jwt", 0o644), ("ca.crt", "v", 0o644), ("namespace", "ns", 0o644), ("pw", "secret", 0o644)];
    check(json!({"projected": {"sources": sources}}), Ok(&projected));
}

#[test]
fn sub_paths_stay_inside() {
    let dir = tempfile::tempdir().unwrap();
    let base = volume_dir(dir.path(), "v");
    fs::create_dir_all(&base).unwrap();
    std::os::unix::fs::symlink("/etc", base.join("out")).unwrap();
    let mounts = |sub: serde_json::Value| {
        let mut mount = json!({"name": "v", "mountPath": "/m"});
        mount.as_object_mut().unwrap().extend(sub.as_object().unwrap().clone());
        let pod = pod(
            json!({"containers": [{"name": "c", "volumeMounts": [mount]}], "volumes": [{"name": "v", "emptyDir": {}}]}),
        );
        let env = [("WHO".to_owned(), "me".to_owned())];
        container_mounts(&pod, &pod.spec.containers[0], dir.path(), &env, Path::new("/h"), Path::new("/t"))
            .map(|m| m.into_iter().map(|m| (m.container_path, m.host_path)).collect::<Vec<_>>())
    };
    let real = base.canonicalize().unwrap();
    let own = [("/etc/hosts".to_owned(), "/h".to_owned()), ("/dev/termination-log".to_owned(), "/t".to_owned())];
    let expect = |p: PathBuf| [&[("/m".to_owned(), p.display().to_string())], &own[..]].concat();
    assert_eq!(mounts(json!({})).unwrap(), expect(base.clone()));
    assert_eq!(mounts(json!({"subPath": "new/dir"})).unwrap(), expect(real.join("new/dir")));
    assert_eq!(mounts(json!({"subPathExpr": "of-$(WHO)"})).unwrap(), expect(real.join("of-me")));
    for bad in [json!({"subPath": "../x"}), json!({"subPath": "out"}), json!({"subPathExpr": "$(NOBODY)"})] {
        assert!(mounts(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn an_empty_dir_is_its_containers_own_once_it_is_made() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("volumes/e");
    let make = || super::fs::empty_dir(&pod(json!({})), &dir, &Default::default()).unwrap();
    let mode = || fs::metadata(&dir).unwrap().mode() & 0o7777;
    // Left by a crash half-way.
    fs::create_dir_all(root.path().join("volumes/e.new")).unwrap();
    make();
    assert_eq!(mode(), 0o777);
    fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    make();
    assert_eq!(mode(), 0o700);
    assert_eq!(fs::read_dir(root.path().join("volumes")).unwrap().count(), 1);
}

#[test]
fn a_tmpfs_is_mounted_with_its_group_and_mode() {
    let check = |size, group, expect: &str| assert_eq!(super::fs::tmpfs_options(size, group), expect);
    check(None, None, "mode=0777");
    check(Some(4096), None, "mode=0777,size=4096");
    check(Some(4096), Some(7), "mode=2777,gid=7,size=4096");
}

/// Has every ConfigMap, but says so only when the test lets it.
#[derive(Default)]
struct Slow {
    asked: Notify,
    answer: Notify,
}

#[async_trait]
impl Objects for Slow {
    async fn config_map(&self, _: &str, _: &str) -> Result<Option<Arc<ConfigMap>>, String> {
        self.asked.notify_one();
        self.answer.notified().await;
        Ok(Some(Arc::default()))
    }
    async fn secret(&self, _: &str, _: &str) -> Result<Option<Arc<Secret>>, String> {
        Ok(None)
    }
    async fn handler(&self, _: &str) -> Result<String, String> {
        Err("no classes here".into())
    }
    async fn token(&self, _: &Pod, _: &TokenSource) -> Result<(String, Option<Timestamp>), String> {
        Err("no tokens here".into())
    }
}

#[tokio::test]
async fn a_refresh_in_flight_brings_no_volume_back() {
    let root = tempfile::tempdir().unwrap();
    let place = Place::new(root.path().join("u"));
    let pod = pod(json!({"volumes": [{"name": "e", "emptyDir": {}}, {"name": "v", "configMap": {"name": "cm"}}]}));
    let (slow, m) = (Slow::default(), Machine::default());
    let refresh = |stamp| prepare(&pod, &place, &slow, &m, &[], stamp);
    slow.answer.notify_one();
    refresh("t1").await.unwrap();
    assert!(root.path().join("u/volumes/v/..data").exists());
    slow.asked.notified().await;
    let end = async {
        slow.asked.notified().await;
        place.clear().unwrap();
        slow.answer.notify_one();
    };
    let (refreshed, ()) = tokio::join!(refresh("t2"), end);
    assert_eq!(refreshed, Err("the pod was torn down".to_owned()));
    assert!(!root.path().join("u").exists());
}
