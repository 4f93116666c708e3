//! Kubernetes' own library: URLs, quantities, addresses, versions and named formats. It decides what their functions answer.

use super::super::error::Error;
use super::super::semver::Semver;
use super::super::url::Url;
use super::super::value::{Key, Pay, Val};
use super::{Meter, Row, global, member, text_cost};
use crate::quantity::Quantity;
use crate::structural::{Format, cidr};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

pub(super) const ROWS: &[Row] = &[
    global("url", &["string -> url"], |meter, args| read(meter, args, url)),
    global("isURL", &["string -> bool"], |meter, args| readable(meter, args, url)),
    member("getScheme", &["url -> string"], |_, args| of_url(args, |url| Val::text(url.scheme()))),
    member("getHost", &["url -> string"], |_, args| of_url(args, |url| Val::text(url.host()))),
    member("getHostname", &["url -> string"], |_, args| of_url(args, |url| Val::text(url.hostname()))),
    member("getPort", &["url -> string"], |_, args| of_url(args, |url| Val::text(url.port()))),
    member("getEscapedPath", &["url -> string"], |_, args| of_url(args, |url| Val::text(url.escaped_path()))),
    member("getQuery", &["url -> map(string, list(string))"], |_, args| of_url(args, query)),
    global("quantity", &["string -> quantity"], |meter, args| read(meter, args, quantity)),
    global("isQuantity", &["string -> bool"], |meter, args| readable(meter, args, quantity)),
    member("sign", &["quantity -> int"], |_, args| of_quantity(args, |q| Ok(Val::Int(q.cmp(&Quantity::ZERO) as i64)))),
    member("isInteger", &["quantity -> bool"], |_, args| of_quantity(args, |q| Ok(Val::Bool(q.is_integer())))),
    member("asInteger", &["quantity -> int"], |_, args| {
        of_quantity(args, |q| match q.is_integer() {
            true => Ok(Val::Int(q.value())),
            false => Err(Error::failed("cannot convert value to integer")),
        })
    }),
    member("asApproximateFloat", &["quantity -> double"], |_, args| {
        of_quantity(args, |q| Ok(Val::Double(q.approximate())))
    }),
    member("add", QUANTITY_MATH, |_, args| quantities(args, |a, b| Val::Quantity(*a + *b))),
    member("sub", QUANTITY_MATH, |_, args| quantities(args, |a, b| Val::Quantity(*a - *b))),
    member("isLessThan", &["quantity, quantity -> bool"], |_, args| quantities(args, |a, b| Val::Bool(a < b))),
    member("isGreaterThan", &["quantity, quantity -> bool"], |_, args| quantities(args, |a, b| Val::Bool(a > b))),
    member("compareTo", &["quantity, quantity -> int"], |_, args| quantities(args, |a, b| Val::Int(a.cmp(b) as i64))),
    global("ip", &["string -> ip"], |meter, args| read(meter, args, ip)),
    global("isIP", &["string -> bool"], |meter, args| readable(meter, args, ip)),
    global("ip.isCanonical", &["string -> bool"], |meter, args| match (read(meter, args, ip)?, args) {
        (Val::Ip(address), [Val::Text(text)]) => Ok(Val::Bool(address.to_string() == text.as_str())),
        _ => Err(Error::no_overload()),
    }),
    member("family", &["ip -> int"], |_, args| of_ip(args, |ip| Val::Int(if ip.is_ipv4() { 4 } else { 6 }))),
    member("isUnspecified", &["ip -> bool"], |_, args| of_ip(args, |ip| Val::Bool(ip.is_unspecified()))),
    member("isLoopback", &["ip -> bool"], |_, args| of_ip(args, |ip| Val::Bool(ip.is_loopback()))),
    member("isLinkLocalMulticast", &["ip -> bool"], |_, args| of_ip(args, |ip| Val::Bool(link_local_multicast(ip)))),
    member("isLinkLocalUnicast", &["ip -> bool"], |_, args| of_ip(args, |ip| Val::Bool(link_local(ip)))),
    member("isGlobalUnicast", &["ip -> bool"], |_, args| of_ip(args, |ip| Val::Bool(global_unicast(ip)))),
    global("cidr", &["string -> cidr"], |meter, args| read(meter, args, net)),
    global("isCIDR", &["string -> bool"], |meter, args| readable(meter, args, net)),
    member("containsIP", &["cidr, string -> bool", "cidr, ip -> bool"], |meter, args| match args {
        [Val::Cidr(net, prefix), Val::Ip(address)] => Ok(Val::Bool(inside(*net, *prefix, *address))),
        [Val::Cidr(net, prefix), text @ Val::Text(_)] => match read(meter, std::slice::from_ref(text), ip)? {
            Val::Ip(address) => Ok(Val::Bool(inside(*net, *prefix, address))),
            _ => Err(Error::no_overload()),
        },
        _ => Err(Error::no_overload()),
    }),
    member("containsCIDR", &["cidr, string -> bool", "cidr, cidr -> bool"], |meter, args| match args {
        [Val::Cidr(net, prefix), Val::Cidr(inner, length)] => {
            Ok(Val::Bool(prefix <= length && inside(*net, *prefix, *inner)))
        }
        [Val::Cidr(outer, prefix), text @ Val::Text(_)] => match read(meter, std::slice::from_ref(text), net)? {
            Val::Cidr(inner, length) => Ok(Val::Bool(*prefix <= length && inside(*outer, *prefix, inner))),
            _ => Err(Error::no_overload()),
        },
        _ => Err(Error::no_overload()),
    }),
    member("ip", &["cidr -> ip"], |_, args| of_cidr(args, |net, _| Val::Ip(net))),
    member("masked", &["cidr -> cidr"], |_, args| of_cidr(args, |net, prefix| Val::Cidr(masked(net, prefix), prefix))),
    member("prefixLength", &["cidr -> int"], |_, args| of_cidr(args, |_, prefix| Val::Int(prefix.into()))),
    global("semver", &["string -> semver", "string, bool -> semver"], semver),
    global("isSemver", &["string -> bool", "string, bool -> bool"], |meter, args| match semver(meter, args) {
        Ok(_) => Ok(Val::Bool(true)),
        Err(Error::Failed(why)) if why != "no such overload" => Ok(Val::Bool(false)),
        Err(error) => Err(error),
    }),
    member("major", &["semver -> int"], |_, args| of_semver(args, |version| version.major)),
    member("minor", &["semver -> int"], |_, args| of_semver(args, |version| version.minor)),
    member("patch", &["semver -> int"], |_, args| of_semver(args, |version| version.patch)),
    member("isLessThan", &["semver, semver -> bool"], |_, args| versions(args, |order| Val::Bool(order < 0))),
    member("isGreaterThan", &["semver, semver -> bool"], |_, args| versions(args, |order| Val::Bool(order > 0))),
    member("compareTo", &["semver, semver -> int"], |_, args| versions(args, Val::Int)),
    global("format.named", &["string -> optional(format)"], |_, args| match args {
        [Val::Text(name)] => {
            Ok(Format::library(name.as_str()).map_or(Val::Optional(None), |f| Val::some(Val::Format(f))))
        }
        _ => Err(Error::no_overload()),
    }),
    global("format.dns1123Label", FORMAT, |_, _| fixed("dns1123Label")),
    global("format.dns1123Subdomain", FORMAT, |_, _| fixed("dns1123Subdomain")),
    global("format.dns1035Label", FORMAT, |_, _| fixed("dns1035Label")),
    global("format.dns1123LabelPrefix", FORMAT, |_, _| fixed("dns1123LabelPrefix")),
    global("format.dns1123SubdomainPrefix", FORMAT, |_, _| fixed("dns1123SubdomainPrefix")),
    global("format.dns1035LabelPrefix", FORMAT, |_, _| fixed("dns1035LabelPrefix")),
    global("format.qualifiedName", FORMAT, |_, _| fixed("qualifiedName")),
    global("format.labelValue", FORMAT, |_, _| fixed("labelValue")),
    global("format.uri", FORMAT, |_, _| fixed("uri")),
    global("format.uuid", FORMAT, |_, _| fixed("uuid")),
    global("format.byte", FORMAT, |_, _| fixed("byte")),
    global("format.date", FORMAT, |_, _| fixed("date")),
    global("format.datetime", FORMAT, |_, _| fixed("datetime")),
    member("validate", &["format, string -> optional(list(string))"], |meter, args| match args {
        [Val::Format(format), Val::Text(text)] => {
            meter.pay(text_cost(text.as_str().len()))?;
            let why = format.problem(text.as_str()).map(|why| Val::some(Val::list(vec![Val::text(why)])));
            Ok(why.unwrap_or(Val::Optional(None)))
        }
        _ => Err(Error::no_overload()),
    }),
];

const QUANTITY_MATH: &[&str] = &["quantity, quantity -> quantity", "quantity, int -> quantity"];
const FORMAT: &[&str] = &[" -> format"];

/// Reads a text as one of the library's types.
fn read<'a>(
    meter: &mut Meter,
    args: &[Val<'a>],
    read: fn(&str) -> Result<Val<'static>, String>,
) -> Result<Val<'a>, Error> {
    match args {
        [Val::Text(text)] => {
            meter.pay(text_cost(text.as_str().len()))?;
            read(text.as_str()).map_err(Error::failed)
        }
        _ => Err(Error::no_overload()),
    }
}

fn readable<'a>(
    meter: &mut Meter,
    args: &[Val<'a>],
    by: fn(&str) -> Result<Val<'static>, String>,
) -> Result<Val<'a>, Error> {
    match args {
        [Val::Text(text)] => {
            meter.pay(text_cost(text.as_str().len()))?;
            Ok(Val::Bool(by(text.as_str()).is_ok()))
        }
        _ => Err(Error::no_overload()),
    }
}

fn url(text: &str) -> Result<Val<'static>, String> {
    let url =
        Url::parse(text).ok_or_else(|| format!("URL parse error during conversion from string: parse {text:?}"))?;
    Ok(Val::Url(Arc::new(url)))
}

fn of_url<'a>(args: &[Val<'a>], part: fn(&Url) -> Val<'a>) -> Result<Val<'a>, Error> {
    match args {
        [Val::Url(url)] => Ok(part(url)),
        _ => Err(Error::no_overload()),
    }
}

fn query<'a>(url: &Url) -> Val<'a> {
    let values = |values: Vec<String>| Val::list(values.into_iter().map(Val::text).collect());
    let entries: BTreeMap<Key, Val<'a>> = url.query().into_iter().map(|(k, v)| (Key::Text(k), values(v))).collect();
    Val::Map(Arc::new(entries))
}

fn quantity(text: &str) -> Result<Val<'static>, String> {
    text.parse().map(Val::Quantity).map_err(|error: crate::quantity::ParseQuantityError| error.to_string())
}

fn of_quantity<'a>(args: &[Val<'a>], part: fn(&Quantity) -> Result<Val<'a>, Error>) -> Result<Val<'a>, Error> {
    match args {
        [Val::Quantity(quantity)] => part(quantity),
        _ => Err(Error::no_overload()),
    }
}

fn quantities<'a>(args: &[Val<'a>], act: fn(&Quantity, &Quantity) -> Val<'a>) -> Result<Val<'a>, Error> {
    match args {
        [Val::Quantity(a), Val::Quantity(b)] => Ok(act(a, b)),
        [Val::Quantity(a), Val::Int(b)] => Ok(act(a, &Quantity::from_value(*b))),
        _ => Err(Error::no_overload()),
    }
}

/// An address without a zone, and no IPv4 address in IPv6's clothes.
fn ip(text: &str) -> Result<Val<'static>, String> {
    let wrong = |why: &str| format!("IP Address {text:?} parse error during conversion from string: {why}");
    let address: IpAddr = text.parse().map_err(|_| wrong("not an IP address"))?;
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Err(wrong("IPv4-mapped IPv6 address is not allowed")),
        address => Ok(Val::Ip(address)),
    }
}

fn net(text: &str) -> Result<Val<'static>, String> {
    let (address, prefix) = cidr(text)
        .ok_or_else(|| format!("network address parse error during conversion from string: invalid CIDR {text:?}"))?;
    ip(&address.to_string()).map(|_| Val::Cidr(address, prefix))
}

fn of_ip<'a>(args: &[Val<'a>], part: fn(&IpAddr) -> Val<'a>) -> Result<Val<'a>, Error> {
    match args {
        [Val::Ip(ip)] => Ok(part(ip)),
        _ => Err(Error::no_overload()),
    }
}

fn of_cidr<'a>(args: &[Val<'a>], part: fn(IpAddr, u8) -> Val<'a>) -> Result<Val<'a>, Error> {
    match args {
        [Val::Cidr(net, prefix)] => Ok(part(*net, *prefix)),
        _ => Err(Error::no_overload()),
    }
}

fn link_local(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn link_local_multicast(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

fn global_unicast(ip: &IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !broadcast && !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast() && !link_local(ip)
}

fn masked(net: IpAddr, prefix: u8) -> IpAddr {
    match net {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or_default();
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or_default();
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

fn inside(net: IpAddr, prefix: u8, address: IpAddr) -> bool {
    net.is_ipv4() == address.is_ipv4() && masked(net, prefix) == masked(address, prefix)
}

fn semver<'a>(meter: &mut Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let (text, normalize) = match args {
        [Val::Text(text)] => (text.as_str(), false),
        [Val::Text(text), Val::Bool(normalize)] => (text.as_str(), *normalize),
        _ => return Err(Error::no_overload()),
    };
    meter.pay(text_cost(text.len()))?;
    let version = if normalize { Semver::normalized(text) } else { Semver::parse(text) };
    version
        .map(|version| Val::Semver(Arc::new(version)))
        .ok_or_else(|| Error::failed(format!("invalid semver {text:?}")))
}

fn of_semver<'a>(args: &[Val<'a>], part: fn(&Semver) -> u64) -> Result<Val<'a>, Error> {
    match args {
        [Val::Semver(version)] => Ok(Val::Int(i64::try_from(part(version)).unwrap_or(i64::MAX))),
        _ => Err(Error::no_overload()),
    }
}

fn versions<'a>(args: &[Val<'a>], act: fn(i64) -> Val<'a>) -> Result<Val<'a>, Error> {
    match args {
        [Val::Semver(a), Val::Semver(b)] => Ok(act(a.compare(b) as i64)),
        _ => Err(Error::no_overload()),
    }
}

fn fixed<'a>(name: &str) -> Result<Val<'a>, Error> {
    Format::library(name).map(Val::Format).ok_or_else(Error::no_overload)
}
