//! What a running node leaves in the kernel under names of its own choice: written down before it is made, so that
//! `gantry down` finds it also after a crash. It never removes anything itself.

mod claims;

pub use claims::{Claim, Clash};

use crate::datadir::{DataDir, write_file};
use crate::preflight::find_program;
use crate::problem::Problem;
use anyhow::Context;
use claims::Claims;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::Command;

const VERSION: u32 = 1;

/// Names outside the data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Footprint {
    version: u32,
    pub cgroup_root: String,
    pub nft_table: String,
    pub dns_link: String,
    /// The network namespace that the table and the link are in, as /proc/self/ns/net names it.
    pub network_namespace: String,
    /// The tables `nat` and their chains as they were before: what CNI's portmap adds for host ports is this node's to
    /// remove. `None`: nobody looked.
    #[serde(default)]
    pub nat_before: Option<Vec<String>>,
}

impl Footprint {
    pub fn new(cgroup_root: &str, nft_table: &str, dns_link: &str) -> Self {
        Self {
            version: VERSION,
            cgroup_root: cgroup_root.to_owned(),
            nft_table: nft_table.to_owned(),
            dns_link: dns_link.to_owned(),
            network_namespace: network_namespace(),
            nat_before: None,
        }
    }

    /// Writes it down, unless this data directory has left something under other names, which `gantry down` would miss, or
    /// another data directory uses the same: each would take the other's Services and containers for its own.
    pub fn claim(&self, data: &DataDir) -> anyhow::Result<()> {
        let mut claimed = self.clone();
        claimed.nat_before = match Self::read(data)?.filter(|old| old.network_namespace == self.network_namespace) {
            // Since then it may be this node's own.
            Some(old) => old.nat_before,
            None => crate::down::nat_objects().ok(),
        };
        claimed.claim_among(data, &Claims::of_this_machine(), is_in_use)
    }

    /// Whether `claim` would succeed now. It changes nothing.
    pub fn check(&self, data: &DataDir) -> anyhow::Result<()> {
        self.check_among(data, &Claims::of_this_machine(), is_in_use)
    }

    fn claim_among(&self, data: &DataDir, claims: &Claims, in_use: impl Fn(&Claim) -> bool) -> anyhow::Result<()> {
        let _held = claims.hold()?;
        self.check_among(data, claims, in_use)?;
        // Those that clash and yet are not in use: from now on what stands under the names is this one's.
        for other in claims.of_others(data).iter().filter(|other| other.clash(self).is_some()) {
            claims.remove(&DataDir::new(&other.data_dir)?);
        }
        claims.write(data, self)?;
        write_file(&path(data), &serde_json::to_vec_pretty(self)?, 0o644)
    }

    fn check_among(&self, data: &DataDir, claims: &Claims, in_use: impl Fn(&Claim) -> bool) -> anyhow::Result<()> {
        if let Some(old) = Self::read(data)?.filter(|old| old.network_namespace == self.network_namespace) {
            self.same_names(&old, data)?;
        }
        match self.rival_among(data, claims, in_use) {
            Some((claim, clash)) => Err(self.refusal(&claim, &clash).into()),
            None => Ok(()),
        }
    }

    /// Another data directory that uses the same names, and which.
    pub fn rival(&self, data: &DataDir) -> Option<(Claim, Clash)> {
        self.rival_among(data, &Claims::of_this_machine(), is_in_use)
    }

    /// The kernel gives the number of a namespace that is gone to the next one, so the same number alone is no clash.
    fn rival_among(&self, data: &DataDir, claims: &Claims, in_use: impl Fn(&Claim) -> bool) -> Option<(Claim, Clash)> {
        let clashes = |claim: Claim| claim.clash(self).map(|clash| (claim, clash));
        let mut others = claims.of_others(data).into_iter().filter_map(clashes);
        others.find(|(claim, clash)| *clash == Clash::Cgroup || in_use(claim))
    }

    fn refusal(&self, claim: &Claim, clash: &Clash) -> Problem {
        let other = claim.data_dir.display();
        let shared = match clash {
            Clash::Cgroup => format!("its pods live in the cgroup {}", claim.footprint.cgroup_root),
            Clash::Network => "it uses this network namespace".to_owned(),
        };
        Problem::new(format!(
            "this machine already runs a node from {other}: {shared}; run `gantry down --data-dir {other}` first, or give \
             this one a network namespace of its own (`ip netns exec`) and another --cgroup-root than {}; nothing was changed",
            claim.footprint.cgroup_root
        ))
    }

    fn same_names(&self, old: &Self, data: &DataDir) -> Result<(), Problem> {
        for (flag, old, new) in [
            ("--cgroup-root", &old.cgroup_root, &self.cgroup_root),
            ("--nft-table", &old.nft_table, &self.nft_table),
            ("--dns-link", &old.dns_link, &self.dns_link),
        ] {
            if old != new {
                return Err(Problem::new(format!(
                    "{flag} {new}: {} was started with {old} and may still use it; run `gantry down --data-dir {}` first",
                    data.root().display(),
                    data.root().display(),
                )));
            }
        }
        Ok(())
    }

    /// `None` when this data directory never ran a node.
    pub fn read(data: &DataDir) -> anyhow::Result<Option<Self>> {
        let path = path(data);
        match std::fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map(Some).with_context(|| format!("reading {}", path.display()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    pub fn forget(data: &DataDir) {
        Self::forget_among(data, &Claims::of_this_machine());
    }

    fn forget_among(data: &DataDir, claims: &Claims) {
        let _ = std::fs::remove_file(path(data));
        claims.remove(data);
    }
}

/// Whether a claim on this network namespace's number is of this namespace: one of its roles runs, or its link is here.
fn is_in_use(claim: &Claim) -> bool {
    let roles = ["gantry", "kubelet", "proxy", "guard"];
    let runs = DataDir::new(&claim.data_dir).is_ok_and(|data| roles.iter().any(|role| data.holder(role).is_some()));
    let link = &claim.footprint.dns_link;
    let ip = find_program("ip").unwrap_or_else(|| "ip".into());
    runs || Command::new(ip).args(["link", "show", "dev", link]).output().is_ok_and(|output| output.status.success())
}

fn path(data: &DataDir) -> PathBuf {
    data.run().join("footprint.json")
}

/// The identity of this process's network namespace, such as `net:[4026531840]`.
pub fn network_namespace() -> String {
    std::fs::read_link("/proc/self/ns/net").map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn data_dir(root: &Path) -> DataDir {
        let data = DataDir::new(root).unwrap();
        data.create().unwrap();
        data
    }

    /// What claiming answers, where every namespace of the same number is the same.
    fn claim(data: &DataDir, footprint: &Footprint, claims: &Claims) -> Result<(), String> {
        footprint.claim_among(data, claims, |_| true).map_err(|error| {
            assert_eq!(crate::problem::exit_code(&error), 2, "{error:#}");
            error.to_string()
        })
    }

    #[test]
    fn what_was_written_is_read() {
        let scratch = tempfile::tempdir().unwrap();
        let (data, claims) = (data_dir(&scratch.path().join("d")), Claims::at(&scratch.path().join("nodes")));
        assert_eq!(Footprint::read(&data).unwrap(), None);
        let footprint = Footprint::new("/gantry", "gantry", "gantry-dns");
        claim(&data, &footprint, &claims).unwrap();
        claim(&data, &footprint, &claims).unwrap();
        assert_eq!(Footprint::read(&data).unwrap(), Some(footprint.clone()));
        let other = Footprint::new("/gantry", "other", "gantry-dns");
        let refused = claim(&data, &other, &claims).unwrap_err();
        assert!(refused.starts_with("--nft-table other:") && refused.contains("gantry down"), "{refused}");
        Footprint::forget_among(&data, &claims);
        claim(&data, &other, &claims).unwrap();
        Footprint::forget_among(&data, &claims);
        assert_eq!(Footprint::read(&data).unwrap(), None);
    }

    #[test]
    fn two_data_directories_never_share_a_cgroup_or_a_network_namespace() {
        let scratch = tempfile::tempdir().unwrap();
        let claims = Claims::at(&scratch.path().join("nodes"));
        let (first, second) = (data_dir(&scratch.path().join("a")), data_dir(&scratch.path().join("b")));
        let names = |cgroup: &str, namespace: &str| Footprint {
            network_namespace: namespace.to_owned(),
            ..Footprint::new(cgroup, "gantry", "gantry-dns")
        };
        claim(&first, &names("/gantry", "net:[1]"), &claims).unwrap();
        for (cgroup, namespace, expect) in [
            ("/gantry", "net:[2]", "its pods live in the cgroup /gantry"),
            ("/gantry/below", "net:[2]", "its pods live in the cgroup /gantry"),
            ("gantry/", "net:[2]", "its pods live in the cgroup /gantry"),
            ("/gantry2", "net:[1]", "it uses this network namespace"),
        ] {
            let refused = claim(&second, &names(cgroup, namespace), &claims).unwrap_err();
            assert!(refused.contains(expect), "{refused}");
            assert!(refused.contains(&format!("gantry down --data-dir {}", first.root().display())), "{refused}");
            assert_eq!(Footprint::read(&second).unwrap(), None, "nothing was changed");
        }
        claim(&second, &names("/gantry2", "net:[2]"), &claims).unwrap();
        Footprint::forget_among(&second, &claims);
        // The number of a namespace that is gone is used again.
        names("/gantry2", "net:[1]").claim_among(&second, &claims, |_| false).unwrap();
        assert_eq!(
            names("/gantry2", "net:[1]").rival_among(&second, &claims, |_| true),
            None,
            "it is the second's now"
        );
        let (rival, clash) = names("/gantry", "net:[1]").rival_among(&first, &claims, |_| true).unwrap();
        assert_eq!(
            (rival.data_dir.as_path(), clash),
            (second.root().canonicalize().unwrap().as_path(), Clash::Network)
        );
    }

    #[test]
    fn a_claim_ends_with_its_data_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let claims = Claims::at(&scratch.path().join("nodes"));
        let (first, second) = (data_dir(&scratch.path().join("a")), data_dir(&scratch.path().join("b")));
        let footprint = Footprint::new("/gantry", "gantry", "gantry-dns");
        claim(&first, &footprint, &claims).unwrap();
        // Another name of the same directory.
        std::os::unix::fs::symlink(first.root(), scratch.path().join("link")).unwrap();
        claim(&DataDir::new(&scratch.path().join("link")).unwrap(), &footprint, &claims).unwrap();
        claim(&second, &footprint, &claims).unwrap_err();
        std::fs::remove_dir_all(first.root()).unwrap();
        claim(&second, &footprint, &claims).unwrap();
        Footprint::forget_among(&second, &claims);
        claim(&data_dir(&scratch.path().join("a")), &footprint, &claims).unwrap();
    }
}
