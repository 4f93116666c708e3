//! Machines that hold the pod's images already start it sooner. Large images count more, and those that few machines hold count
//! less, so that one machine does not draw all pods of an image. (Kubernetes: the ImageLocality plugin's formula.)

use std::sync::Arc;

use super::{Preparing, Scale, Score, Scored};
use crate::snapshot::{Machine, Snapshot};

/// A container: below the first, fetching costs nothing worth counting; above the second, nothing more.
const LEAST: i64 = 23 << 20;
const MOST: i64 = 1000 << 20;

#[derive(Debug)]
struct Images(Vec<Arc<str>>);

pub fn score(preparing: &mut Preparing) -> Scored {
    let images: Vec<Arc<str>> = preparing.info.images.iter().map(|image| full_name(image).into()).collect();
    if images.is_empty() { None } else { Some(Box::new(Images(images))) }
}

impl Score for Images {
    fn scale(&self) -> Scale {
        Scale::AsIs
    }

    fn score(&self, snapshot: &Snapshot, machines: &[Machine], scores: &mut Vec<i64>) {
        let all = i64::try_from(snapshot.live().count()).unwrap_or(i64::MAX).max(1);
        let held: Vec<_> = self.0.iter().filter_map(|image| snapshot.image(image)).collect();
        if held.is_empty() {
            return;
        }
        let worth: Vec<i64> = held.iter().map(|image| image.bytes.min(1 << 40) * image.machines / all).collect();
        let most = MOST * i64::try_from(self.0.len()).unwrap_or(1);
        scores.extend(machines.iter().map(|machine| {
            let on = held.iter().zip(&worth).filter(|(image, _)| image.on.get(*machine));
            let sum: i64 = on.map(|(_, worth)| worth).sum();
            (sum.clamp(LEAST, most) - LEAST) * 100 / (most - LEAST)
        }));
    }
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
    use crate::plugins::testing::{Cluster, owned};

    #[test]
    fn large_images_that_are_there_count() {
        let mut cluster = Cluster::default();
        let images = |bytes: i64| json!({"status": {"images": [{"names": ["r/web:latest"], "sizeBytes": bytes}]}});
        cluster.machine("huge", images(5 << 30));
        cluster.machine("tiny", images(5 << 30));
        let pod = cluster.pod("p", json!({"containers": [{"image": "r/web"}]}));
        assert_eq!(cluster.scores(score, &pod), [("huge", 100), ("tiny", 100)].map(owned), "one size an image");
        cluster.machine("none", json!({}));
        cluster.machine("tiny", json!({}));
        assert_eq!(cluster.scores(score, &pod), [("huge", 100), ("tiny", 0), ("none", 0)].map(owned));
    }
}
