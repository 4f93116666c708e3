//! Name resolution straight from /etc/resolv.conf: search list, ndots and servers as resolv.conf(5) has them.
//! A static binary cannot count on the C library's resolver modules, and a test wants to see the raw answer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

struct ResolvConf {
    servers: Vec<IpAddr>,
    search: Vec<String>,
    ndots: usize,
}

fn parse(text: &str) -> ResolvConf {
    let mut conf = ResolvConf { servers: Vec::new(), search: Vec::new(), ndots: 1 };
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => conf.servers.extend(words.next().and_then(|word| word.parse::<IpAddr>().ok())),
            Some("search") => conf.search = words.map(str::to_owned).collect(),
            Some("options") => {
                if let Some(ndots) = words.find_map(|word| word.strip_prefix("ndots:")?.parse().ok()) {
                    conf.ndots = ndots;
                }
            }
            _ => {}
        }
    }
    conf
}

/// The IPv4 addresses of `name`, from the first candidate of the search list that has any.
pub fn lookup(name: &str) -> Result<Vec<Ipv4Addr>, String> {
    if let Ok(address) = name.parse() {
        return Ok(vec![address]);
    }
    let text = std::fs::read_to_string("/etc/resolv.conf").map_err(|error| format!("/etc/resolv.conf: {error}"))?;
    let conf = parse(&text);
    if conf.servers.is_empty() {
        return Err("/etc/resolv.conf names no server".to_owned());
    }
    let mut last = String::new();
    for candidate in candidates(name, &conf) {
        for server in &conf.servers {
            match query(*server, &candidate) {
                Ok(addresses) if !addresses.is_empty() => return Ok(addresses),
                Ok(_) => last = format!("{candidate} has no address"),
                Err(error) => last = error,
            }
        }
    }
    Err(format!("cannot resolve {name}: {last}"))
}

fn candidates(name: &str, conf: &ResolvConf) -> Vec<String> {
    if let Some(absolute) = name.strip_suffix('.') {
        return vec![absolute.to_owned()];
    }
    let mut names: Vec<String> = conf.search.iter().map(|suffix| format!("{name}.{suffix}")).collect();
    if name.matches('.').count() >= conf.ndots {
        names.insert(0, name.to_owned());
    } else {
        names.push(name.to_owned());
    }
    names
}

fn query(server: IpAddr, name: &str) -> Result<Vec<Ipv4Addr>, String> {
    let mut packet = vec![0x47, 0x41, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        if label.is_empty() || label.len() > 63 {
            return Err(format!("{name:?} is not a host name"));
        }
        packet.push(label.len() as u8);
        packet.extend_from_slice(label.as_bytes());
    }
    packet.extend_from_slice(&[0, 0, 1, 0, 1]);
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(|error| error.to_string())?;
    socket.set_read_timeout(Some(Duration::from_secs(2))).map_err(|error| error.to_string())?;
    let mut answer = [0u8; 4096];
    for _attempt in 0..2 {
        socket.send_to(&packet, SocketAddr::new(server, 53)).map_err(|error| format!("{server}: {error}"))?;
        if let Ok(length) = socket.recv(&mut answer) {
            return addresses(&answer[..length], name);
        }
    }
    Err(format!("{server} did not answer for {name}"))
}

fn addresses(packet: &[u8], name: &str) -> Result<Vec<Ipv4Addr>, String> {
    let short = || format!("a truncated answer for {name}");
    let code = packet.get(3).ok_or_else(short)? & 0x0f;
    if code != 0 {
        return Err(format!("{name}: DNS response code {code}"));
    }
    let answers = u16::from_be_bytes([packet[6], packet[7]]);
    let mut at = skip_name(packet, 12).ok_or_else(short)? + 4;
    let mut found = Vec::new();
    for _ in 0..answers {
        at = skip_name(packet, at).ok_or_else(short)?;
        let fixed = packet.get(at..at + 10).ok_or_else(short)?;
        let kind = u16::from_be_bytes([fixed[0], fixed[1]]);
        let length = usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        let data = packet.get(at + 10..at + 10 + length).ok_or_else(short)?;
        if let (1, &[a, b, c, d]) = (kind, data) {
            found.push(Ipv4Addr::new(a, b, c, d));
        }
        at += 10 + length;
    }
    Ok(found)
}

fn skip_name(packet: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *packet.get(at)? {
            0 => return Some(at + 1),
            pointer if pointer & 0xc0 == 0xc0 => return Some(at + 2),
            length => at += usize::from(length) + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_list_follows_ndots() {
        let conf = parse("nameserver 10.96.0.10\nsearch a.svc.x svc.x\noptions ndots:2\n");
        assert_eq!(candidates("web", &conf), ["web.a.svc.x", "web.svc.x", "web"]);
        assert_eq!(candidates("web.b.svc", &conf), ["web.b.svc", "web.b.svc.a.svc.x", "web.b.svc.svc.x"]);
        assert_eq!(candidates("web.", &conf), ["web"]);
    }

    #[test]
    fn only_address_records_count() {
        let mut packet = vec![0x47, 0x41, 0x81, 0x80, 0, 1, 0, 2, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1];
        packet.extend_from_slice(&[0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 5, 0, 2, 0xc0, 12]);
        packet.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 10, 0, 0, 7]);
        assert_eq!(addresses(&packet, "a"), Ok(vec![Ipv4Addr::new(10, 0, 0, 7)]));
        packet[3] = 0x83;
        assert!(addresses(&packet, "a").is_err());
    }
}
