//! One certificate: whether the one on disk still serves, and issuing it. It never reads a clock or a file.

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData,
};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::X509Certificate;

const DAY_S: i64 = 86_400;
const AUTHORITY_LIFE_S: i64 = 3_650 * DAY_S;
const LEAF_LIFE_S: i64 = 365 * DAY_S;
/// Issued again at the next start once less than this is left.
const RENEW_BEFORE_S: i64 = 60 * DAY_S;
/// Other machines' clocks may be behind by this much.
const CLOCK_SKEW_S: i64 = 3_600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    Client,
    Server,
    Both,
}

/// The certificate that should exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub common_name: String,
    pub organization: Option<String>,
    /// DNS names and IP addresses, in any order.
    pub sans: Vec<String>,
    pub usage: Usage,
}

/// Whether a certificate on disk serves, or why it is issued again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    Good,
    Unreadable,
    Ending,
    OtherKey,
    OtherAuthority,
    OtherSubject,
    OtherNames,
}

/// A certificate authority: its certificate and the key that signs.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new(pem: String, key: KeyPair) -> anyhow::Result<Self> {
        let issuer = Issuer::from_ca_cert_pem(&pem, key).context("reading the authority's certificate")?;
        Ok(Self { pem, issuer })
    }

    /// A certificate for `key`'s public half.
    pub fn issue(&self, wanted: &Wanted, key: &KeyPair, now_s: i64) -> anyhow::Result<String> {
        let mut params = CertificateParams::new(wanted.sans.clone()).context("reading the names")?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(organization) = &wanted.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization.as_str());
        }
        params.distinguished_name.push(DnType::CommonName, wanted.common_name.as_str());
        set_validity(&mut params, now_s, LEAF_LIFE_S);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if wanted.usage != Usage::Client {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        if wanted.usage != Usage::Server {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        Ok(params.signed_by(key, &self.issuer)?.pem())
    }
}

/// A self-signed certificate for `key`. Renewing it with the same key leaves what it signed valid.
pub fn issue_authority(common_name: &str, key: &KeyPair, now_s: i64) -> anyhow::Result<String> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    set_validity(&mut params, now_s, AUTHORITY_LIFE_S);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(params.self_signed(key).context("signing an authority's certificate")?.pem())
}

/// Whether the authority's certificate on disk is this key's and lasts.
pub fn authority_holds(pem: &str, key: &KeyPair, now_s: i64) -> bool {
    parsed(pem, |certificate| {
        certificate.is_ca()
            && certificate.public_key().subject_public_key.data.as_ref() == key.der_bytes()
            && certificate.validity().not_after.timestamp() - now_s > RENEW_BEFORE_S
    })
    .unwrap_or(false)
}

/// Holds the certificate on disk against the wanted one.
pub fn judge(pem: &str, key: &KeyPair, authority: &Authority, wanted: &Wanted, now_s: i64) -> Judgement {
    let Some(authority_key_id) = parsed(&authority.pem, subject_key_id).flatten() else {
        return Judgement::OtherAuthority;
    };
    parsed(pem, |certificate| {
        let subject = certificate.subject();
        let common_name = subject.iter_common_name().next().and_then(|n| n.as_str().ok());
        let organization = subject.iter_organization().next().and_then(|n| n.as_str().ok());
        if certificate.public_key().subject_public_key.data.as_ref() != key.der_bytes() {
            Judgement::OtherKey
        } else if signer_key_id(certificate).as_deref() != Some(&authority_key_id) {
            Judgement::OtherAuthority
        } else if common_name != Some(&wanted.common_name) || organization != wanted.organization.as_deref() {
            Judgement::OtherSubject
        } else if names_of(certificate) != wanted.sans.iter().cloned().collect() {
            Judgement::OtherNames
        } else if certificate.validity().not_after.timestamp() - now_s <= RENEW_BEFORE_S {
            Judgement::Ending
        } else {
            Judgement::Good
        }
    })
    .unwrap_or(Judgement::Unreadable)
}

/// The names of a certificate; none if there is none.
pub fn names(pem: &str) -> BTreeSet<String> {
    parsed(pem, names_of).unwrap_or_default()
}

fn set_validity(params: &mut CertificateParams, now_s: i64, life_s: i64) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let since_epoch = |unix_s: i64| Duration::from_secs(u64::try_from(unix_s).unwrap_or(0));
    params.not_before = epoch + since_epoch(now_s - CLOCK_SKEW_S);
    params.not_after = epoch + since_epoch(now_s + life_s);
}

fn parsed<T>(pem: &str, read: impl FnOnce(&X509Certificate<'_>) -> T) -> Option<T> {
    let (_, block) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).ok()?;
    let certificate = block.parse_x509().ok()?;
    Some(read(&certificate))
}

fn subject_key_id(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
        _ => None,
    })
}

fn signer_key_id(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.iter_extensions().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|id| id.0.to_vec()),
        _ => None,
    })
}

fn names_of(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return BTreeSet::new() };
    extension.value.general_names.iter().filter_map(name_of).collect()
}

fn name_of(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match *bytes {
            [a, b, c, d] => Some(IpAddr::from([*a, *b, *c, *d]).to_string()),
            bytes => <[u8; 16]>::try_from(bytes).ok().map(|octets| IpAddr::from(octets).to_string()),
        },
        _ => None,
    }
}
