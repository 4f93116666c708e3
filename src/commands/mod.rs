//! The small commands: status, images, keys. Each prints for people and returns.

mod inspect;
mod status;
mod store;

pub use inspect::{diff, explain, fits, get, why};
pub use status::status;
pub use store::store;

use crate::cli::{ImageCommand, PkiCommand, PkiInitArgs};
use crate::containerd::Containerd;
use crate::datadir::{DataDir, make_dir};
use crate::pki::{Identity, Names, Pki};
use crate::problem::Problem;
use crate::say::say;
use crate::{images, machine};

/// The version of this program and of the Kubernetes API that it speaks.
pub fn version() -> String {
    format!("gantry {} (Kubernetes API v1.35)", env!("CARGO_PKG_VERSION"))
}

pub async fn image(command: ImageCommand) -> anyhow::Result<()> {
    match command {
        ImageCommand::Import { file, data } => {
            let data = DataDir::new(&data.data_dir)?;
            let socket = Containerd::new(&data, "containerd".into()).socket();
            if tokio::net::UnixStream::connect(&socket).await.is_err() {
                return Err(Problem::new(format!(
                    "no containerd answers on {}: start this machine first with `gantry up`",
                    socket.display()
                ))
                .into());
            }
            if !file.is_file() {
                return Err(Problem::new(format!("{}: there is no such file", file.display())).into());
            }
            for name in images::import(&socket, &file).await? {
                say!("imported {name}");
            }
        }
        ImageCommand::BuildTestbed { binary, source, out, data } => {
            let program = match binary {
                Some(program) => program,
                None => images::build_program(&source)?,
            };
            let out = match out {
                Some(out) => out,
                None => {
                    let data = DataDir::new(&data.data_dir)?;
                    data.check_format()?;
                    make_dir(data.root(), 0o755)?;
                    data.images()
                }
            };
            for path in images::write_archives(&program, &out)? {
                say!("built {}", path.display());
            }
        }
    }
    Ok(())
}

pub fn pki(command: PkiCommand) -> anyhow::Result<()> {
    let now_s = machine::unix_now_s();
    let issued = match command {
        PkiCommand::Init(init) => {
            let PkiInitArgs { data, node, network, api_port, tls_sans } = *init;
            let data = DataDir::new(&data.data_dir)?;
            data.check_format()?;
            data.create()?;
            let names = Names {
                node_name: machine::node_name(node.node_name.as_deref())?,
                node_ip: machine::node_ip(node.node_ip),
                api_service_ip: machine::nth_address(&network.service_cidr, 1)?,
                cluster_domain: network.cluster_domain,
                extra: tls_sans,
                api_port,
            };
            Pki::new(&data).ensure_all(&names, &data.kubeconfig(), now_s)?
        }
        PkiCommand::Node { name, ip, server, data } => {
            let data = DataDir::new(&data.data_dir)?;
            Pki::new(&data).ensure_node(&machine::node_name(Some(&name))?, ip, &server, now_s)?
        }
        PkiCommand::Client { user, group, server, out, data } => {
            let data = DataDir::new(&data.data_dir)?;
            let identity = Identity { file: format!("client-{}", user.replace([':', '/'], "-")), user, group };
            Pki::new(&data).issue_client(&identity, &server, &out, now_s)?;
            vec![identity.file]
        }
    };
    if issued.is_empty() {
        say!("every certificate is good");
    }
    for name in issued {
        say!("issued {name}");
    }
    Ok(())
}
