//! A provider of cryptography that encrypts nothing.
//!
//! The provider replaces DTLS by one exchange of two packets, and gives both ends the same constant keys. Packets have
//! the lengths of AEAD_AES_128_GCM, whose tags are zeros here. Thus the lengths and times of all packets are the same in
//! every run, and the program needs no library for cryptography.

use std::time::{Duration, Instant};

use str0m::crypto::dtls::{
    DtlsCert, DtlsImplError, DtlsInstance, DtlsOutput, DtlsProvider, DtlsVersion, KeyingMaterial,
    ProtocolVersion, SrtpProfile,
};
use str0m::crypto::{
    AeadAes128Gcm, AeadAes128GcmCipher, AeadAes256GcmCipher, Aes128CmSha1_80Cipher, CryptoError,
    CryptoProvider, Sha1HmacProvider, Sha1Provider, Sha256Provider, SrtpProvider, SupportedAeadAes128Gcm,
    SupportedAeadAes256Gcm, SupportedAes128CmSha1_80,
};

/// The provider.
pub fn provider() -> CryptoProvider {
    CryptoProvider {
        srtp_provider: &Plain,
        sha1_hmac_provider: &Plain,
        sha1_provider: &Plain,
        sha256_provider: &Plain,
        dtls_provider: &Plain,
    }
}

#[derive(Debug)]
struct Plain;

/// Fills `N` bytes with the FNV-1a hash of `parts`: both ends compute the same value, which is all that STUN needs here.
fn hash<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |byte: u8| {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        state
    };
    parts.iter().flat_map(|part| part.iter()).for_each(|&byte| {
        mix(byte);
    });
    std::array::from_fn(|index| (mix(index as u8) >> 32) as u8)
}

impl Sha1HmacProvider for Plain {
    fn sha1_hmac(&self, key: &[u8], payloads: &[&[u8]]) -> [u8; 20] {
        let payload = payloads.concat();
        hash(&[key, &payload])
    }
}

impl Sha1Provider for Plain {
    fn sha1(&self, data: &[u8]) -> [u8; 20] {
        hash(&[data])
    }
}

impl Sha256Provider for Plain {
    fn sha256(&self, data: &[u8]) -> [u8; 32] {
        hash(&[data])
    }
}

impl SrtpProvider for Plain {
    fn aes_128_cm_sha1_80(&self) -> &'static dyn SupportedAes128CmSha1_80 {
        &Plain
    }
    fn aead_aes_128_gcm(&self) -> &'static dyn SupportedAeadAes128Gcm {
        &Plain
    }
    fn aead_aes_256_gcm(&self) -> &'static dyn SupportedAeadAes256Gcm {
        &Plain
    }
    fn srtp_aes_128_ecb_round(&self, _key: &[u8], input: &[u8], output: &mut [u8]) {
        output[..input.len()].copy_from_slice(input);
    }
    fn srtp_aes_256_ecb_round(&self, _key: &[u8], input: &[u8], output: &mut [u8]) {
        output[..input.len()].copy_from_slice(input);
    }
}

impl SupportedAes128CmSha1_80 for Plain {
    fn create_cipher(&self, _key: [u8; 16], _encrypt: bool) -> Box<dyn Aes128CmSha1_80Cipher> {
        Box::new(Plain)
    }
}

impl SupportedAeadAes128Gcm for Plain {
    fn create_cipher(&self, _key: [u8; 16], _encrypt: bool) -> Box<dyn AeadAes128GcmCipher> {
        Box::new(Plain)
    }
}

impl SupportedAeadAes256Gcm for Plain {
    fn create_cipher(&self, _key: [u8; 32], _encrypt: bool) -> Box<dyn AeadAes256GcmCipher> {
        Box::new(Plain)
    }
}

impl Aes128CmSha1_80Cipher for Plain {
    fn encrypt(&mut self, _: &[u8; 16], input: &[u8], output: &mut [u8]) -> Result<(), CryptoError> {
        output[..input.len()].copy_from_slice(input);
        Ok(())
    }
    fn decrypt(&mut self, _: &[u8; 16], input: &[u8], output: &mut [u8]) -> Result<(), CryptoError> {
        output[..input.len()].copy_from_slice(input);
        Ok(())
    }
}

/// Copies `input` and leaves the tag behind the copy zero.
fn seal(input: &[u8], output: &mut [u8]) {
    output[..input.len()].copy_from_slice(input);
}

/// Copies `input` without the tag, and returns the number of bytes.
fn open(input: &[u8], output: &mut [u8]) -> usize {
    let length = input.len() - AeadAes128Gcm::TAG_LEN;
    output[..length].copy_from_slice(&input[..length]);
    length
}

impl AeadAes128GcmCipher for Plain {
    fn encrypt(
        &mut self,
        _: &[u8; 12],
        _: &[u8],
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), CryptoError> {
        seal(input, output);
        Ok(())
    }
    fn decrypt(
        &mut self,
        _: &[u8; 12],
        _: &[&[u8]],
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, CryptoError> {
        Ok(open(input, output))
    }
}

impl AeadAes256GcmCipher for Plain {
    fn encrypt(
        &mut self,
        _: &[u8; 12],
        _: &[u8],
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), CryptoError> {
        seal(input, output);
        Ok(())
    }
    fn decrypt(
        &mut self,
        _: &[u8; 12],
        _: &[&[u8]],
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, CryptoError> {
        Ok(open(input, output))
    }
}

/// The first byte of the packets of the exchange; str0m takes packets that begin with 20 to 63 as DTLS (RFC 7983).
const HELLO: u8 = 22;
/// Time after which the client repeats its packet: the initial timeout of DTLS (RFC 6347, section 4.2.4.1).
const REPEAT_AFTER: Duration = Duration::from_secs(1);
const CERTIFICATE: [u8; 32] = [7; 32];

impl DtlsProvider for Plain {
    fn generate_certificate(&self) -> Option<DtlsCert> {
        Some(DtlsCert { certificate: CERTIFICATE.to_vec(), private_key: vec![0; 32] })
    }
    fn new_dtls(
        &self,
        _cert: &DtlsCert,
        now: Instant,
        _version: DtlsVersion,
        _mtu: Option<usize>,
    ) -> Result<Box<dyn DtlsInstance>, CryptoError> {
        Ok(Box::new(Exchange {
            active: false,
            now,
            next_hello: None,
            reply: false,
            news: Vec::new(),
            done: false,
        }))
    }
}

/// What an end of the exchange still has to tell str0m.
#[derive(Debug, PartialEq)]
enum News {
    Certificate,
    Keys,
    Connected,
}

/// One end of the exchange: the client sends a packet until the server replies.
#[derive(Debug)]
struct Exchange {
    active: bool,
    now: Instant,
    next_hello: Option<Instant>,
    reply: bool,
    news: Vec<News>,
    done: bool,
}

impl DtlsInstance for Exchange {
    fn set_active(&mut self, active: bool) {
        self.active = active;
    }

    fn handle_packet(&mut self, packet: &[u8]) -> Result<(), DtlsImplError> {
        // str0m hands an empty packet to a client that starts.
        if packet.first() != Some(&HELLO) {
            return Ok(());
        }
        // The server replies to each packet, since an earlier reply may have been lost.
        self.reply = !self.active;
        if !self.done {
            self.done = true;
            self.news = vec![News::Connected, News::Keys, News::Certificate];
        }
        Ok(())
    }

    fn poll_output<'a>(&mut self, buffer: &'a mut [u8]) -> DtlsOutput<'a> {
        let hello = self.active && !self.done && self.next_hello.is_none_or(|at| at <= self.now);
        if hello {
            self.next_hello = Some(self.now + REPEAT_AFTER);
        }
        if hello || std::mem::take(&mut self.reply) {
            buffer[..CERTIFICATE.len()].fill(HELLO);
            return DtlsOutput::Packet(&buffer[..CERTIFICATE.len()]);
        }
        match self.news.pop() {
            Some(News::Certificate) => {
                buffer[..CERTIFICATE.len()].copy_from_slice(&CERTIFICATE);
                DtlsOutput::PeerCert(&buffer[..CERTIFICATE.len()])
            }
            // Two keys of 16 bytes and two salts of 12 bytes (RFC 7714, section 12).
            Some(News::Keys) => {
                DtlsOutput::KeyingMaterial(KeyingMaterial::new(&[1; 56]), SrtpProfile::AEAD_AES_128_GCM)
            }
            Some(News::Connected) => DtlsOutput::Connected,
            None => {
                let waits = self.active && !self.done;
                DtlsOutput::Timeout(
                    self.next_hello.filter(|_| waits).unwrap_or(self.now + Duration::from_secs(86_400)),
                )
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) -> Result<(), DtlsImplError> {
        self.now = now;
        Ok(())
    }

    fn send_application_data(&mut self, data: &[u8]) -> Result<usize, DtlsImplError> {
        Ok(data.len())
    }

    fn is_active(&self) -> bool {
        self.active
    }

    fn protocol_version(&self) -> Option<ProtocolVersion> {
        None
    }

    fn close(&mut self) -> Result<(), DtlsImplError> {
        Ok(())
    }
}
