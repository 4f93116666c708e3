//! Network namespaces that a test makes, and what it does inside them. Everything ends with the test.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(5);

/// A namespace that lives as long as the process in it.
pub struct Net {
    keeper: Child,
    scratch: tempfile::TempDir,
}

impl Net {
    pub fn new() -> Self {
        // The keeper says a word once it is inside, then waits for its input to close.
        let mut keeper = Command::new("unshare")
            .args(["--net", "sh", "-c", "ip link set lo up && echo inside && exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare (util-linux) is there");
        let mut word = [0u8; 7];
        keeper.stdout.as_mut().unwrap().read_exact(&mut word).expect("a namespace can be made: run as root");
        Self { keeper, scratch: tempfile::tempdir().unwrap() }
    }

    pub fn pid(&self) -> u32 {
        self.keeper.id()
    }

    /// Runs `ip` inside.
    pub fn ip(&self, line: &str) {
        let output = self.command("ip").args(line.split(' ')).output().unwrap();
        assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.pid())).arg(program);
        command
    }

    /// A program that runs `name` inside, for code that is given a program's path.
    pub fn wrapper(&self, name: &str) -> PathBuf {
        let path = self.scratch.path().join(name);
        let text = format!("#!/bin/sh\nexec nsenter --net=/proc/{}/ns/net {name} \"$@\"\n", self.pid());
        // Another process writes it: a child that another test starts meanwhile would hold it open for writing, and what is written
        // cannot be run.
        let mut shell = Command::new("sh");
        let written = shell.args(["-c", "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\""]).arg(&path).arg(text).status();
        assert!(written.unwrap().success());
        path
    }

    /// Runs `work` on a thread that is inside; sockets made there stay there.
    pub fn inside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let namespace = std::fs::File::open(format!("/proc/{}/ns/net", self.pid())).unwrap();
        let thread = thread::spawn(move || {
            let kind = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(kind)).unwrap();
            work()
        });
        thread.join().unwrap()
    }

    /// A server inside that tells every client `NAME CLIENT-ADDRESS` and hangs up, until the test ends.
    pub fn serve(&self, address: &str, name: &'static str) {
        let address: SocketAddr = address.parse().unwrap();
        let listener = self.inside(move || TcpListener::bind(address).unwrap());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let peer = stream.peer_addr().unwrap().ip();
                let _ = stream.write_all(format!("{name} {peer}").as_bytes());
            }
        });
    }

    /// As `serve`, by datagrams.
    pub fn serve_datagrams(&self, address: &str, name: &'static str) {
        let address: SocketAddr = address.parse().unwrap();
        let socket = self.inside(move || UdpSocket::bind(address).unwrap());
        thread::spawn(move || {
            let mut buffer = [0u8; 64];
            while let Ok((_, peer)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(name.as_bytes(), peer);
            }
        });
    }

    /// A socket inside that keeps its port, so that all its datagrams are one flow.
    pub fn datagram_socket(&self) -> UdpSocket {
        self.inside(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket
        })
    }

    /// What a server told, or why nobody did.
    pub fn ask(&self, address: &str) -> Result<(String, IpAddr), std::io::ErrorKind> {
        let address: SocketAddr = address.parse().unwrap();
        let (sender, receiver) = mpsc::channel();
        self.inside(move || {
            let asked = || -> std::io::Result<String> {
                let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                let mut text = String::new();
                stream.read_to_string(&mut text)?;
                Ok(text)
            };
            sender.send(asked().map_err(|error| error.kind())).unwrap();
        });
        let text = receiver.recv().unwrap()?;
        let (name, peer) = text.split_once(' ').expect("two words");
        Ok((name.to_owned(), peer.parse().unwrap()))
    }

    /// The names of the servers that answered `times` questions.
    pub fn ask_often(&self, address: &str, times: usize) -> std::collections::BTreeSet<String> {
        (0..times).map(|_| self.ask(address).expect("somebody answers").0).collect()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}
