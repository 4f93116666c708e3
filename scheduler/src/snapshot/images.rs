//! Which machines hold which image, and how large it is.

use std::collections::HashMap;
use std::sync::Arc;

use super::Machine;
use crate::api::NodeImage;
use crate::bits::Bits;

#[derive(Debug, Default)]
pub struct Image {
    pub bytes: i64,
    pub on: Bits,
    pub machines: i64,
}

#[derive(Debug, Default)]
pub(super) struct Images {
    by_name: HashMap<Arc<str>, Image>,
    on_machine: Vec<Vec<Arc<str>>>,
}

impl Images {
    pub fn grow(&mut self) {
        self.on_machine.push(Vec::new());
    }

    pub fn get(&self, name: &str) -> Option<&Image> {
        self.by_name.get(name)
    }

    pub fn set(&mut self, machine: Machine, images: &[NodeImage]) {
        let told = || images.iter().flat_map(|image| &image.names);
        let same = self.on_machine[machine].len() == told().count()
            && self.on_machine[machine].iter().zip(told()).all(|(known, name)| **known == **name);
        if same {
            return;
        }
        for name in std::mem::take(&mut self.on_machine[machine]) {
            let Some(image) = self.by_name.get_mut(&name) else { continue };
            if image.on.set(machine, false) {
                image.machines -= 1;
            }
            if image.machines == 0 {
                self.by_name.remove(&name);
            }
        }
        for (name, bytes) in images.iter().flat_map(|image| image.names.iter().map(|name| (name, image.size_bytes))) {
            let name =
                self.by_name.get_key_value(name.as_str()).map_or_else(|| name.as_str().into(), |(n, _)| n.clone());
            let image = self.by_name.entry(name.clone()).or_default();
            image.bytes = bytes;
            if image.on.set(machine, true) {
                image.machines += 1;
            }
            self.on_machine[machine].push(name);
        }
    }
}
