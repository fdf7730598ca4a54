//! Which addresses are on the public internet. A name is looked up where the connection is made, and only what
//! passed is connected to: a name that changes its address between two looks gains nothing.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// From the registries of special addresses, as far as they are not reachable by all, and multicast.
const NOT_PUBLIC_V4: [([u8; 4], u32); 15] = [
    ([0, 0, 0, 0], 8),       // this network
    ([10, 0, 0, 0], 8),      // private
    ([100, 64, 0, 0], 10),   // shared behind a carrier's NAT
    ([127, 0, 0, 0], 8),     // loopback
    ([169, 254, 0, 0], 16),  // link-local, clouds' metadata
    ([172, 16, 0, 0], 12),   // private
    ([192, 0, 0, 0], 24),    // protocol assignments
    ([192, 0, 2, 0], 24),    // documentation
    ([192, 88, 99, 0], 24),  // 6to4 relays
    ([192, 168, 0, 0], 16),  // private
    ([198, 18, 0, 0], 15),   // benchmarks
    ([198, 51, 100, 0], 24), // documentation
    ([203, 0, 113, 0], 24),  // documentation
    ([224, 0, 0, 0], 4),     // multicast
    ([240, 0, 0, 0], 4),     // reserved, broadcast
];

/// Global unicast; all else (loopback, unique local, link-local, multicast, ...) is not public.
const PUBLIC_V6: ([u16; 8], u32) = ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

const NOT_PUBLIC_V6: [([u16; 8], u32); 3] = [
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),     // protocol assignments, Teredo
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), // documentation
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),     // documentation
];

/// IPv6 addresses that stand for an IPv4 address, and the bit at which it begins.
const EMBEDDED_V4: [([u16; 8], u32, u32); 3] = [
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, 96),    // mapped
    ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, 96), // NAT64
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, 16),    // 6to4
];

/// Whether everybody's traffic may go there.
pub(super) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let is_in = |net: [u8; 4], bits: u32| (ip.to_bits() ^ u32::from_be_bytes(net)).leading_zeros() >= bits;
    !NOT_PUBLIC_V4.iter().any(|(net, bits)| is_in(*net, *bits))
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let is_in = |net: [u16; 8], bits: u32| (ip.to_bits() ^ Ipv6Addr::from(net).to_bits()).leading_zeros() >= bits;
    for (net, bits, at) in EMBEDDED_V4 {
        if is_in(net, bits) {
            let embedded = ip.to_bits() << at >> 96;
            return u32::try_from(embedded).is_ok_and(|v4| is_public_v4(Ipv4Addr::from_bits(v4)));
        }
    }
    is_in(PUBLIC_V6.0, PUBLIC_V6.1) && !NOT_PUBLIC_V6.iter().any(|(net, bits)| is_in(*net, *bits))
}

/// A host that is not on the public internet.
#[derive(Debug, thiserror::Error)]
#[error("{host} is {ip}, which is not on the public internet: --allow-private allows it")]
pub(super) struct NotPublic {
    host: String,
    ip: IpAddr,
}

/// Why a name has no address to connect to.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookUpError {
    #[error(transparent)]
    NotPublic(#[from] NotPublic),
    #[error("{0} cannot be looked up: {1}")]
    Io(String, #[source] io::Error),
}

/// The addresses of a host that are on the public internet; at least one.
async fn look_up(host: &str) -> Result<Vec<SocketAddr>, LookUpError> {
    let no = |error| LookUpError::Io(host.to_owned(), error);
    let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await.map_err(no)?.collect();
    let first = found.first().ok_or_else(|| no(io::Error::other("it has no address")))?.ip();
    let public: Vec<_> = found.into_iter().filter(|address| is_public(address.ip())).collect();
    if public.is_empty() {
        return Err(NotPublic { host: host.to_owned(), ip: first }.into());
    }
    Ok(public)
}

/// Checks where an address leads to now. An address without a name is never looked up again.
pub(super) async fn check(url: &Url) -> Result<(), LookUpError> {
    let host = url.host_str().unwrap_or_default();
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(ip) if is_public(ip) => Ok(()),
        Ok(ip) => Err(NotPublic { host: host.to_owned(), ip }.into()),
        Err(_) => look_up(host).await.map(drop),
    }
}

/// Lets no connection leave the public internet.
pub(super) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let addresses: Addrs = Box::new(look_up(name.as_str()).await?.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_public() {
        for (ip, expected) in [
            ("1.1.1.1", true),
            ("9.255.255.255", true),
            ("11.0.0.0", true),
            ("100.63.255.255", true),
            ("100.128.0.0", true),
            ("172.15.255.255", true),
            ("172.32.0.0", true),
            ("192.0.1.0", true),
            ("223.255.255.255", true),
            ("2606:4700::1111", true),
            ("2a00::1", true),
            ("::ffff:1.1.1.1", true),
            ("64:ff9b::101:101", true),
            ("2002:101:101::1", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("10.0.0.1", false),
            ("100.64.0.1", false),
            ("100.127.255.255", false),
            ("127.0.0.1", false),
            ("127.255.255.254", false),
            ("169.254.169.254", false),
            ("172.16.0.1", false),
            ("172.31.255.255", false),
            ("192.0.0.1", false),
            ("192.0.2.1", false),
            ("192.88.99.1", false),
            ("192.168.1.1", false),
            ("198.19.255.255", false),
            ("198.51.100.1", false),
            ("203.0.113.1", false),
            ("224.0.0.1", false),
            ("239.255.255.255", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::7f00:1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:169.254.169.254", false),
            ("64:ff9b::a00:1", false),
            ("64:ff9b:1::101:101", false),
            ("100::1", false),
            ("2001::1", false),
            ("2001:1ff:ffff::1", false),
            ("2001:db8::1", false),
            ("2002:7f00:1::1", false),
            ("2002:c0a8:101::", false),
            ("3fff:fff::1", false),
            ("5f00::1", false),
            ("fc00::1", false),
            ("fd12:3456::1", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_public(ip.parse().unwrap()), expected, "{ip}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_here_is_not_connected_to() {
        let here = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Url = format!("http://localhost:{}/", here.local_addr().unwrap().port()).parse().unwrap();
        assert!(matches!(check(&url).await, Err(LookUpError::NotPublic(_))));
        let client = reqwest::Client::builder().no_proxy().dns_resolver(PublicOnly).build().unwrap();
        tokio::select! {
            sent = client.get(url).send() => {
                let error = sent.unwrap_err();
                let causes = std::iter::successors(std::error::Error::source(&error), |error| error.source());
                assert!(causes.into_iter().any(|error| error.to_string().contains("--allow-private")), "{error:?}");
            }
            _ = here.accept() => panic!("it was connected to"),
        }
    }

    #[tokio::test]
    async fn an_address_without_a_name_is_judged_as_it_is() {
        for (url, expected) in [
            ("http://127.1/", false),
            ("http://0x7f000001/", false),
            ("http://2130706433/", false),
            ("http://[::1]/", false),
            ("http://[::ffff:10.0.0.1]/", false),
            ("https://1.1.1.1/", true),
            ("https://[2606:4700::1111]/", true),
        ] {
            assert_eq!(check(&url.parse().unwrap()).await.is_ok(), expected, "{url}");
        }
    }
}
