//! The process and its host: handshake, TLS, and leaving when the host is gone.

use crate::error::{Code, Error, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustix::process::{Signal, getpgrp, getpid, kill_process_group};
use std::env;
use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::rustls::client::danger::HandshakeSignatureValid;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, UnixTime};
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::{
    self, CertificateError, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
};

pub const COOKIE: (&str, &str) = ("MOONCAKE_PLUGIN_COOKIE", "3d6b0f1c-mooncake-plugin");
pub const LIFELINE: &str = "MOONCAKE_PLUGIN_LIFELINE_FD";
pub const DATA: &str = "MOONCAKE_PLUGIN_DATA_FD";
pub const LOG_LEVEL: &str = "MOONCAKE_PLUGIN_LOG_LEVEL";
pub const SOCKETS: &str = "PLUGIN_UNIX_SOCKET_DIR";
pub const CLIENT_CERT: &str = "PLUGIN_CLIENT_CERT";
pub const VERSIONS: &str = "PLUGIN_PROTOCOL_VERSIONS";

const EXIT_HOST_GONE: i32 = 3;

pub fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// Takes ownership of the descriptor whose number a variable has. Programs that this process starts do not
/// inherit it. Call it once for each variable.
pub fn descriptor(name: &str) -> Result<Option<OwnedFd>> {
    let text = variable(name);
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = || Error::invalid(format!("{name}={text:?} is not the number of an open descriptor"));
    let number: RawFd = text.parse().ok().filter(|n| *n > 2).ok_or_else(wrong)?;
    std::fs::metadata(format!("/proc/self/fd/{number}")).map_err(|_| wrong())?;
    // SAFETY: the host opened it for this purpose, and nothing else in this process owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC).map_err(|_| wrong())?;
    Ok(Some(fd))
}

/// Chooses the highest contract version that both sides know, or one of this side: the host then reports
/// the mismatch.
pub fn negotiate(offered: &str, spoken: &[u32]) -> u32 {
    let host: Vec<u32> = offered.split(',').filter_map(|v| v.trim().parse().ok()).collect();
    let common = spoken.iter().copied().filter(|v| host.contains(v)).max();
    common.or(spoken.iter().copied().min()).unwrap_or(1)
}

/// A TLS configuration that admits only the holder of the host's certificate, and the text by which the
/// host recognises this process: its certificate, DER in base64 without padding.
pub fn tls(host: &str) -> Result<(ServerConfig, String)> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |e: &dyn std::fmt::Display| Error::new(Code::Internal, format!("{what}: {e}"))
    };
    let client = CertificateDer::from_pem_slice(host.as_bytes())
        .map_err(|e| failed("the certificate of the host")(&format!("{e:?}")))?;
    let key = KeyPair::generate().map_err(|e| failed("make a key")(&e))?;
    let mut params =
        CertificateParams::new(vec!["localhost".to_owned()]).map_err(|e| failed("make a certificate")(&e))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let cert = params.self_signed(&key).map_err(|e| failed("sign a certificate")(&e))?;
    let provider = Arc::new(ring::default_provider());
    let only = Arc::new(Only { client, provider: provider.clone() });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| failed("configure TLS")(&e))?
        .with_client_cert_verifier(only)
        .with_single_cert(vec![cert.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .map_err(|e| failed("configure TLS")(&e))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok((config, STANDARD_NO_PAD.encode(cert.der())))
}

/// Accepts exactly one certificate, which is both the host's own and its issuer's.
#[derive(Debug)]
struct Only {
    client: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

type Signature = std::result::Result<HandshakeSignatureValid, rustls::Error>;

impl ClientCertVerifier for Only {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        cert: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        if *cert == self.client {
            return Ok(ClientCertVerified::assertion());
        }
        Err(CertificateError::UnknownIssuer.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Signature {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Signature {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Redirects all prints to standard error, and returns the real standard output, for the handshake.
pub fn keep_stdout() -> std::io::Result<File> {
    use std::os::fd::AsFd;
    let real = std::io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(std::io::stderr())?;
    Ok(File::from(real))
}

/// Ends the process when the host is gone: on SIGTERM and SIGHUP, and when the lifeline closes. SIGINT is
/// for the host alone. Needs a runtime.
pub fn watch_host() -> Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()] {
        let mut arrived =
            signal(kind).map_err(|e| Error::new(Code::Internal, format!("watch for signals: {e}")))?;
        tokio::spawn(async move {
            while arrived.recv().await.is_some() {
                if kind != SignalKind::interrupt() {
                    leave();
                }
            }
        });
    }
    if let Some(fd) = descriptor(LIFELINE)? {
        let mut line = File::from(fd);
        // The host never sends anything: a read returns when the other end is closed.
        std::thread::spawn(move || {
            while line.read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
            leave();
        });
    }
    Ok(())
}

/// Kills this process group at once, and first removes the socket, which would stay otherwise.
fn leave() -> ! {
    let folder = variable(SOCKETS);
    if !folder.is_empty() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|t| t.is_socket()) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        let _ = std::fs::remove_dir(&folder);
    }
    if getpgrp() == getpid() {
        let _ = kill_process_group(getpid(), Signal::KILL); // This process too.
    }
    std::process::exit(EXIT_HOST_GONE)
}

#[cfg(test)]
mod tests {
    use super::negotiate;

    #[test]
    fn contract_versions() {
        for (offered, chosen) in [("1", 1), ("3,1, 2", 2), ("7", 1), ("", 1)] {
            assert_eq!(negotiate(offered, &[1, 2]), chosen, "{offered}");
        }
    }
}
