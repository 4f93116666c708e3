//! Generates clients of etcd v3's interface from its facts, without protoc. The store's own code is not used: the
//! benchmark sees every server from outside.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=../store/proto/etcd.proto");
    let files = protox::compile(["../store/proto/etcd.proto"], ["../store/proto"])?;
    tonic_prost_build::configure().build_server(false).bytes(".").compile_fds(files)?;
    Ok(())
}
