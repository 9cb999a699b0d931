//! The Diffie-Hellman groups, and the server's choice among them.

use crate::Random;
use lh_wire::Mpint;

/// Group sizes that either side accepts, bits. RFC 8268 and OpenSSH: nothing below 2048; RFC 4419: nothing
/// above 8192.
pub(super) const GROUP_BITS: core::ops::RangeInclusive<usize> = 2048..=8192;

/// A group that a method's name specifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FixedGroup {
    Group1,
    Group14,
    Group16,
    Group18,
}

impl FixedGroup {
    pub(super) fn group(self) -> DhGroup {
        match self {
            Self::Group1 => DhGroup::group1(),
            Self::Group14 => DhGroup::group14(),
            Self::Group16 => DhGroup::group16(),
            Self::Group18 => DhGroup::group18(),
        }
    }
}

/// A Diffie-Hellman group: big-endian magnitudes without leading zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DhGroup {
    /// The safe prime.
    pub p: Vec<u8>,
    /// The generator.
    pub g: Vec<u8>,
}

impl DhGroup {
    /// Returns RFC 2409 group 2, 1024 bits, which SSH calls group 1. An attacker with millions to spend can
    /// break it.
    pub fn group1() -> Self {
        Self::rfc3526(GROUP1_P)
    }

    /// Returns RFC 3526 group 14, 2048 bits.
    pub fn group14() -> Self {
        Self::rfc3526(GROUP14_P)
    }

    /// Returns RFC 3526 group 16, 4096 bits.
    pub fn group16() -> Self {
        Self::rfc3526(GROUP16_P)
    }

    /// Returns RFC 3526 group 18, 8192 bits.
    pub fn group18() -> Self {
        Self::rfc3526(GROUP18_P)
    }

    /// Returns the size of the prime, bits.
    pub fn bits(&self) -> usize {
        Mpint::from_magnitude(&self.p).bits()
    }

    /// Returns the server's choice for a group exchange request of `min`, preferred `n` and `max` bits (RFC
    /// 4419 section 3). It comes from the text of a moduli file (moduli(5)), or is a fixed group without one
    /// or without a suitable line. The smallest size that is at least `n` wins, else the largest below it;
    /// among groups of that size the choice is random.
    ///
    /// Returns `None` when no group of an acceptable size (at least 2048 bits) is within `min..=max`.
    pub fn choose(min: u32, n: u32, max: u32, moduli: Option<&str>, rng: &mut dyn Random) -> Option<Self> {
        let fits = |bits: usize| GROUP_BITS.contains(&bits) && (min as usize..=max as usize).contains(&bits);
        // Smaller is better: sizes from `n` up in ascending order, then those below it in descending order.
        let distance = |bits: usize| match bits.checked_sub(n as usize) {
            Some(above) => (0, above),
            None => (1, n as usize - bits),
        };
        let lines = || moduli.into_iter().flat_map(str::lines).filter_map(Candidate::parse);
        let best =
            lines().map(|each| each.bits).filter(|bits| fits(*bits)).min_by_key(|bits| distance(*bits));
        if let Some(bits) = best {
            let count = lines().filter(|each| each.bits == bits).count();
            let mut random = [0; 8];
            rng.fill(&mut random);
            let pick = u64::from_le_bytes(random) % count.max(1) as u64;
            let chosen = lines().filter(|each| each.bits == bits).nth(usize::try_from(pick).unwrap_or(0));
            // A line whose number does not have the stated size is not used.
            if let Some(group) = chosen.and_then(|each| each.group()).filter(|group| group.bits() == bits) {
                return Some(group);
            }
        }
        [Self::group14(), Self::group16(), Self::group18()]
            .into_iter()
            .filter(|group| fits(group.bits()))
            .min_by_key(|group| distance(group.bits()))
    }

    fn rfc3526(p: &str) -> Self {
        Self { p: hex(p).unwrap_or_default(), g: vec![2] }
    }
}

/// A usable line of a moduli file.
struct Candidate<'a> {
    bits: usize,
    generator: &'a str,
    modulus: &'a str,
}

impl<'a> Candidate<'a> {
    /// Parses a line of moduli(5): time, type, tests, tries, size (of the prime, minus one), generator and
    /// modulus in hex.
    fn parse(line: &'a str) -> Option<Self> {
        const SAFE_PRIME: u32 = 2;
        const TESTED_COMPOSITE: u32 = 1;
        let mut fields = line.split_ascii_whitespace();
        let time = fields.next()?;
        if time.starts_with('#') {
            return None;
        }
        let kind: u32 = fields.next()?.parse().ok()?;
        let tests: u32 = fields.next()?.parse().ok()?;
        let _tries: u32 = fields.next()?.parse().ok()?;
        let bits = fields.next()?.parse::<usize>().ok()?.checked_add(1)?;
        let (generator, modulus) = (fields.next()?, fields.next()?);
        let usable = kind == SAFE_PRIME && tests != 0 && tests & TESTED_COMPOSITE == 0;
        (usable && fields.next().is_none()).then_some(Self { bits, generator, modulus })
    }

    fn group(&self) -> Option<DhGroup> {
        let trimmed = |text| Some(Mpint::from_magnitude(&hex(text)?).magnitude().to_vec());
        Some(DhGroup { p: trimmed(self.modulus)?, g: trimmed(self.generator)? })
    }
}

/// Returns the big-endian bytes of a hexadecimal number.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    // From the end, so that an odd first digit forms a byte by itself.
    let mut bytes: Vec<u8> = text
        .as_bytes()
        .rchunks(2)
        .map(|pair| pair.iter().try_fold(0, |value, each| Some(value << 4 | digit(each)?)))
        .collect::<Option<_>>()?;
    bytes.reverse();
    Some(bytes)
}

const GROUP1_P: &str = concat!(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DD",
    "EF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED",
    "EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE65381FFFFFFFFFFFFFFFF",
);

const GROUP14_P: &str = concat!(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DD",
    "EF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED",
    "EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F",
    "83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B",
    "E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE515D2261898FA0510",
    "15728E5A8AACAA68FFFFFFFFFFFFFFFF",
);

const GROUP16_P: &str = concat!(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DD",
    "EF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED",
    "EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F",
    "83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B",
    "E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE515D2261898FA0510",
    "15728E5A8AAAC42DAD33170D04507A33A85521ABDF1CBA64ECFB850458DBEF0A8AEA71575D060C7DB3970F85A6E1E4C7",
    "ABF5AE8CDB0933D71E8C94E04A25619DCEE3D2261AD2EE6BF12FFA06D98A0864D87602733EC86A64521F2B18177B200C",
    "BBE117577A615D6C770988C0BAD946E208E24FA074E5AB3143DB5BFCE0FD108E4B82D120A92108011A723C12A787E6D7",
    "88719A10BDBA5B2699C327186AF4E23C1A946834B6150BDA2583E9CA2AD44CE8DBBBC2DB04DE8EF92E8EFC141FBECAA6",
    "287C59474E6BC05D99B2964FA090C3A2233BA186515BE7ED1F612970CEE2D7AFB81BDD762170481CD0069127D5B05AA9",
    "93B4EA988D8FDDC186FFB7DC90A6C08F4DF435C934063199FFFFFFFFFFFFFFFF",
);

const GROUP18_P: &str = concat!(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DD",
    "EF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED",
    "EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F",
    "83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B",
    "E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE515D2261898FA0510",
    "15728E5A8AAAC42DAD33170D04507A33A85521ABDF1CBA64ECFB850458DBEF0A8AEA71575D060C7DB3970F85A6E1E4C7",
    "ABF5AE8CDB0933D71E8C94E04A25619DCEE3D2261AD2EE6BF12FFA06D98A0864D87602733EC86A64521F2B18177B200C",
    "BBE117577A615D6C770988C0BAD946E208E24FA074E5AB3143DB5BFCE0FD108E4B82D120A92108011A723C12A787E6D7",
    "88719A10BDBA5B2699C327186AF4E23C1A946834B6150BDA2583E9CA2AD44CE8DBBBC2DB04DE8EF92E8EFC141FBECAA6",
    "287C59474E6BC05D99B2964FA090C3A2233BA186515BE7ED1F612970CEE2D7AFB81BDD762170481CD0069127D5B05AA9",
    "93B4EA988D8FDDC186FFB7DC90A6C08F4DF435C93402849236C3FAB4D27C7026C1D4DCB2602646DEC9751E763DBA37BD",
    "F8FF9406AD9E530EE5DB382F413001AEB06A53ED9027D831179727B0865A8918DA3EDBEBCF9B14ED44CE6CBACED4BB1B",
    "DB7F1447E6CC254B332051512BD7AF426FB8F401378CD2BF5983CA01C64B92ECF032EA15D1721D03F482D7CE6E74FEF6",
    "D55E702F46980C82B5A84031900B1C9E59E7C97FBEC7E8F323A97A7E36CC88BE0F1D45B7FF585AC54BD407B22B4154AA",
    "CC8F6D7EBF48E1D814CC5ED20F8037E0A79715EEF29BE32806A1D58BB7C5DA76F550AA3D8A1FBFF0EB19CCB1A313D55C",
    "DA56C9EC2EF29632387FE8D76E3C0468043E8F663F4860EE12BF2D5B0B7474D6E694F91E6DBE115974A3926F12FEE5E4",
    "38777CB6A932DF8CD8BEC4D073B931BA3BC832B68D9DD300741FA7BF8AFC47ED2576F6936BA424663AAB639C5AE4F568",
    "3423B4742BF1C978238F16CBE39D652DE3FDB8BEFC848AD922222E04A4037C0713EB57A81A23F0C73473FC646CEA306B",
    "4BCBC8862F8385DDFA9D4B7FA2C087E879683303ED5BDD3A062B3CF5B3A278A66D2A13F83F44F82DDF310EE074AB6A36",
    "4597E899A0255DC164F31CC50846851DF9AB48195DED7EA1B1D510BD7EE74D73FAF36BC31ECFA268359046F4EB879F92",
    "4009438B481C6CD7889A002ED5EE382BC9190DA6FC026E479558E4475677E9AA9E3050E2765694DFC81F56E880B96E71",
    "60C980DD98EDD3DFFFFFFFFFFFFFFFFF",
);
