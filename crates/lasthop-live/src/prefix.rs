//! IP addresses and prefixes: "192.0.2.7", "192.0.2.0/24", "2001:db8::/64".

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An IPv4 or IPv6 prefix; a single address is a prefix of full length.
///
/// # Examples
///
/// ```
/// use lasthop_live::Prefix;
///
/// let mobiles: Prefix = "192.0.2.0/24".parse().unwrap();
/// assert!(mobiles.contains("192.0.2.7".parse().unwrap()));
/// assert!(!mobiles.contains("198.51.100.1".parse().unwrap()));
/// assert!("192.0.2.7/33".parse::<Prefix>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// The address as an integer.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u128::from(a.to_bits()),
        IpAddr::V6(a) => a.to_bits(),
    }
}

impl Prefix {
    /// The prefix of the first `length` bits of `address`; the other bits are ignored. `None` if
    /// `length` exceeds the address length.
    pub fn new(address: IpAddr, length: u8) -> Option<Prefix> {
        (length <= width(address)).then_some(Prefix { address, length })
    }

    /// True if the address belongs to the prefix.
    pub fn contains(&self, address: IpAddr) -> bool {
        let rest = u32::from(width(self.address) - self.length);
        let head = |a| bits(a).checked_shr(rest).unwrap_or(0);
        address.is_ipv4() == self.address.is_ipv4() && head(address) == head(self.address)
    }
}

/// Length of an address of this family, bits.
fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Prefix {
        Prefix { address, length: width(address) }
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let wrong = || {
            format!(
                "expected an address or a prefix such as 192.0.2.7, 192.0.2.0/24 or \
                 2001:db8::/64, found \"{text}\""
            )
        };
        let (address, length) =
            text.trim().split_once('/').map_or((text.trim(), None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let Some(length) = length else { return Ok(address.into()) };
        let longest = width(address);
        let length = length.parse().map_err(|_| wrong())?;
        Prefix::new(address, length).ok_or_else(|| {
            format!("a prefix of {address} has at most {longest} bits, found \"{text}\"")
        })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.length == width(self.address) {
            write!(f, "{}", self.address)
        } else {
            write!(f, "{}/{}", self.address, self.length)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_prefixes_of_both_families() {
        let has = |prefix: &str, address: &str| {
            prefix.parse::<Prefix>().unwrap().contains(address.parse().unwrap())
        };
        assert!(has("192.0.2.7", "192.0.2.7") && !has("192.0.2.7", "192.0.2.6"));
        assert!(has("192.0.2.99/24", "192.0.2.1") && !has("192.0.2.0/24", "192.0.3.1"));
        assert!(has("0.0.0.0/0", "255.1.2.3") && !has("0.0.0.0/0", "::1"));
        assert!(
            has("2001:db8::/33", "2001:db8:7fff::1") && !has("2001:db8::/33", "2001:db8:8000::1")
        );
        assert!(has("::/0", "ff::") && !has("::/0", "1.2.3.4"));
        assert!(has(" ::1/128 ", "::1"));
    }

    #[test]
    fn invalid_prefixes_give_errors() {
        let error = |t: &str| t.parse::<Prefix>().unwrap_err();
        assert!(error("phone").contains("found \"phone\""));
        assert!(error("10.0.0.0/33").contains("at most 32 bits"));
        assert!(error("::/129").contains("at most 128 bits"));
        for bad in ["", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8/8", "10.0.0"] {
            assert!(error(bad).starts_with("expected an address"), "{bad}");
        }
    }

    #[test]
    fn prefixes_round_trip() {
        for t in ["10.0.0.1", "10.0.0.0/8", "2001:db8::/64", "::1"] {
            assert_eq!(t.parse::<Prefix>().unwrap().to_string(), t);
        }
    }
}
