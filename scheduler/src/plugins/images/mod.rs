//! Machines that hold the pod's images already start it sooner. Large images count more.

use super::{Scale, Scorer};
use crate::pod::PodInfo;
use crate::snapshot::Snapshot;

/// Below the first, fetching costs nothing worth counting; above the second, nothing more.
const LEAST: i64 = 23 << 20;
const MOST: i64 = 1000 << 20;

pub fn score<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Scorer<'a>> {
    let score = move |machine| {
        let held: i64 = pod.images.iter().map(|image| snapshot.image_bytes(machine, &full_name(image))).sum();
        (held.clamp(LEAST, MOST) - LEAST) * 100 / (MOST - LEAST)
    };
    Some(Scorer { score: Box::new(score), scale: Scale::AsIs })
}

/// Machines report images with their tag.
fn full_name(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains(':') || last.contains('@') { image.to_owned() } else { format!("{image}:latest") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::Cluster;

    #[test]
    fn large_images_that_are_there_count() {
        let mut cluster = Cluster::default();
        let images = |bytes: i64| json!({"status": {"images": [{"names": ["r/web:latest"], "sizeBytes": bytes}]}});
        cluster.machine("huge", images(5 << 30));
        cluster.machine("tiny", images(1 << 20));
        cluster.machine("none", json!({}));
        let pod = cluster.pod("p", json!({"containers": [{"image": "r/web"}]}));
        assert_eq!(cluster.scores(score, &pod), [("huge", 100), ("tiny", 0), ("none", 0)]);
    }
}
