//! Custom resources as the loops over all kinds see them: which there are, and a header of each of their objects. Decides when a
//! kind is followed and when it is forgotten.

use super::feeds::{Feeds, Seen, forward};
use super::informers::{HeaderSink, Informers};
use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::meta::Header;
use gantry_client::{Client, Informer, InformerOptions};
use std::collections::{BTreeMap, BTreeSet};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

impl Informers {
    /// The custom resources that are served.
    pub fn custom_kinds(&self) -> Vec<&'static Kind> {
        self.definitions.list().iter().filter_map(|definition| definition.kind()).collect()
    }

    /// The kind of this name, of the table or custom.
    pub fn kind_of(&self, group: &str, version: &str, kind: &str) -> Option<&'static Kind> {
        kinds::by_kind(group, version, kind).or_else(|| {
            let all = self.definitions.list();
            all.iter().find(|definition| definition.defines(group, kind))?.in_version(version)
        })
    }

    /// Hands on the headers of all custom resources, also of those that are defined later.
    pub fn follow_custom(&self, client: &Client, feeds: &mut Feeds, each: impl HeaderSink) {
        let (definitions, client) = (self.definitions.clone(), client.clone());
        feeds.spawn(async move {
            let mut followed = Followed::default();
            let (_, mut changes) = definitions.subscribe_with_state();
            loop {
                let wanted = definitions.list().iter().filter_map(|definition| definition.kind()).collect::<Vec<_>>();
                followed.settle(&wanted, &client, &each);
                if changes.recv().await.is_none() {
                    return;
                }
            }
        });
    }
}

/// The feeds that run; they end when this is dropped.
#[derive(Default)]
struct Followed(BTreeMap<String, (&'static Kind, AbortHandle)>);

impl Followed {
    fn settle(&mut self, wanted: &[&'static Kind], client: &Client, each: &impl HeaderSink) {
        self.0.retain(|_, (kind, feed)| {
            let stays = wanted.contains(kind);
            if !stays {
                feed.abort();
                each(kind, Seen::Exactly(BTreeSet::new()));
            }
            stays
        });
        for kind in wanted.iter().copied() {
            self.0.entry(kind.path("", "")).or_insert_with(|| {
                let options = InformerOptions { metadata_only: true, ..InformerOptions::all() };
                let informer = Informer::<Header>::start(client.clone(), kind, options, CancellationToken::new());
                (kind, tokio::spawn(forward(informer, kind, each.clone())).abort_handle())
            });
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.0.values().for_each(|(_, feed)| feed.abort());
    }
}
