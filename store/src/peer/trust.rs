//! Why a TLS connection between members, or with a client, was not made: in words, with what to do, and not too often.

use parking_lot::Mutex;
use rustls::{AlertDescription, CertificateError};
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::Instant;

/// Between two words about one peer and reason.
const EVERY: Duration = Duration::from_secs(60);
/// Peers and reasons that are remembered at once.
const MOST: usize = 256;

const SAME_AUTHORITY: &str = "give both certificates of one store authority (store-ca.crt)";
const NAME: &str = "issue the other's certificate for the name or address that is called (gantry pki init --tls-san)";
const RENEW: &str = "issue the certificate anew (gantry pki init), and compare both clocks";
const CERTIFICATE: &str = "compare the other's log: names, authority and dates of this side's certificate";

/// What was wrong, if TLS was: the reason, and what to do.
pub fn distrust(error: &(dyn Error + 'static)) -> Option<(String, &'static str)> {
    let mut source = Some(error);
    while let Some(error) = source {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let tls = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()).or_else(|| error.downcast_ref());
        if let Some(tls) = tls {
            return Some(words(tls));
        }
        source = error.source();
    }
    None
}

fn words(error: &rustls::Error) -> (String, &'static str) {
    use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage, NoCertificatesPresented};
    let fixed = |text: &str, advice| (text.to_owned(), advice);
    match error {
        InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }) => {
            fixed("its certificate does not name this address", NAME)
        }
        InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            fixed("another authority signed its certificate", SAME_AUTHORITY)
        }
        InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => fixed("its certificate is not valid at this time", RENEW),
        NoCertificatesPresented => fixed("it shows no certificate", SAME_AUTHORITY),
        AlertReceived(AlertDescription::UnknownCA) => {
            fixed("it does not know the authority of this side's certificate", SAME_AUTHORITY)
        }
        AlertReceived(
            AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::UnsupportedCertificate,
        ) => fixed("it refuses this side's certificate", CERTIFICATE),
        AlertReceived(AlertDescription::CertificateRequired) => {
            fixed("it wants a certificate, and this side shows none", SAME_AUTHORITY)
        }
        InvalidMessage(_) => fixed("it does not speak TLS", "use TLS on both sides or on none"),
        other => (other.to_string(), CERTIFICATE),
    }
}

/// Logs why `peer` and this side do not trust each other, if that is it.
pub fn warn(peer: &str, error: &(dyn Error + 'static)) {
    if let Some((reason, advice)) = distrust(error)
        && due(format!("{peer} {reason}"))
    {
        tracing::warn!(peer, reason, "no TLS connection: {advice}");
    }
}

fn due(what: String) -> bool {
    static TOLD: LazyLock<Mutex<BTreeMap<String, Instant>>> = LazyLock::new(Mutex::default);
    let (mut told, now) = (TOLD.lock(), Instant::now());
    told.retain(|_, at| now.saturating_duration_since(*at) < EVERY);
    let new = told.len() < MOST && !told.contains_key(&what);
    if new {
        told.insert(what, now);
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distrust_has_a_reason_and_is_told_once_a_minute() {
        let tls = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let error = io::Error::new(io::ErrorKind::InvalidData, tls);
        let (reason, advice) = distrust(&error).unwrap();
        assert_eq!((&reason[..], advice), ("another authority signed its certificate", SAME_AUTHORITY));
        assert_eq!(distrust(&io::Error::from(io::ErrorKind::ConnectionRefused)), None);
        assert!(due("here a".into()) && !due("here a".into()) && due("here b".into()));
    }
}
