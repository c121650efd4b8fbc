//! TLS for the stacks that have it from rustls: any certificate is taken, and keys are written down for whoever reads
//! the captures.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, KeyLogFile, SignatureScheme};

use crate::{Options, Result};

/// A client's configuration, with early data where they are asked for.
pub fn client(options: &Options, provider: CryptoProvider) -> Result<rustls::ClientConfig> {
    let provider = Arc::new(provider);
    let verifier = Arc::new(AnyCertificate(provider.clone()));
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    tls.alpn_protocols = vec![options.protocol.name().into()];
    tls.key_log = Arc::new(KeyLogFile::new());
    tls.enable_early_data = options.early_data();
    Ok(tls)
}

/// A server's configuration, with early data where they are accepted.
pub fn server(options: &Options, provider: CryptoProvider) -> Result<rustls::ServerConfig> {
    let chain = chain(options)?;
    let key = PrivateKeyDer::from_pem_file(&options.private_key)
        .map_err(|error| format!("{}: {error}", options.private_key.display()))?;
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![options.protocol.name().into()];
    tls.key_log = Arc::new(KeyLogFile::new());
    // All or nothing (RFC 9001 §4.6.1).
    tls.max_early_data_size = if options.early_data() { u32::MAX } else { 0 };
    Ok(tls)
}

/// The server's certificates, its own first.
pub fn chain(options: &Options) -> Result<Vec<CertificateDer<'static>>> {
    let read = |error| format!("{}: {error}", options.certificate.display());
    let chain = CertificateDer::pem_file_iter(&options.certificate).map_err(read)?;
    Ok(chain.collect::<std::result::Result<_, _>>().map_err(read)?)
}

/// The servers of a test network make their certificates themselves.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer,
        _: &[CertificateDer],
        _: &ServerName,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
