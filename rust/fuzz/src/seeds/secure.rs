//! Generator of SASL messages, JAAS entries and key stores.
use crate::random::Random;
use crate::targets::{Secure, secure};
use crate::tree::{Node, Number};

/// A small certificate, its private key, and the same key encrypted with five iterations.
static CERTIFICATE: &[u8] = include_bytes!("certificate.der");
static KEY: &[u8] = include_bytes!("key.der");
static ENCRYPTED: &[u8] = include_bytes!("encrypted.der");

/// Returns the first byte of the target's input, and the rest of the input.
pub(super) fn of(what: Secure, random: &mut Random) -> (u8, Node) {
    match what {
        Secure::Login => {
            let what = random.below(5) as u8;
            (what, login(what, random))
        }
        Secure::Jaas => {
            let module = random.below(MODULES.len());
            (MODULES.get(module).map_or(0, |(mechanism, _)| *mechanism), jaas(module, random))
        }
        Secure::Jks => (flags(random), jks(random)),
        Secure::Pkcs12 => (flags(random), pkcs12(random)),
        Secure::Pem => (flags(random), pem(random)),
    }
}

/// Returns the target's flags. Usually they select the correct digest, password and key password.
fn flags(random: &mut Random) -> u8 {
    let rarely = |random: &mut Random, flag: u8| if random.one_in(12) { flag } else { 0 };
    (1 ^ rarely(random, 1)) | rarely(random, 2) | rarely(random, 4)
}

fn text(text: impl Into<String>) -> Node {
    Node::Raw(text.into().into_bytes())
}

fn login(what: u8, random: &mut Random) -> Node {
    let comma = || text(",");
    Node::Group(match what {
        0 => {
            let iterations = match random.below(8) {
                0 => random.edge(4096).to_string(),
                1 => random.edge(1_000_000).to_string(),
                2 => random.edge(i64::from(i32::MAX)).to_string(),
                _ => "4096".into(),
            };
            let max = if random.one_in(8) { 500 } else { 9 };
            let salt = "c2Fs".repeat(random.below(max));
            let nonce = vec![text("r="), text(secure::NONCE), text(format!("-{}", random.below(999)))];
            let rest = vec![text("s="), text(salt), comma(), text("i="), text(iterations)];
            nonce.into_iter().chain([comma()]).chain(rest).collect()
        }
        1 => match random.below(4) {
            0 => vec![text("e="), text("unknown-user")],
            1 => vec![text(secure::SIGNED), comma(), text("x=y")],
            _ => vec![text(secure::SIGNED)],
        },
        2 => vec![Node::Int(Number::Big(1), 1 << random.below(4)), Node::Int(Number::Big(3), 1 << random.below(24))],
        3 => {
            let words =
                [secure::SECRET, "no", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.", "\u{202e}", "\r\n", "Bearer ", "="];
            (0..random.below(60)).map(|_| text(random.pick(&words).unwrap_or_default())).collect()
        }
        _ => {
            let header = text("eyJhbGciOiJSUzI1NiJ9");
            let claims = text("eyJzdWIiOiJhIiwiaWF0IjoxLCJleHAiOjE3MDAwMDAwMDAuNSwic2NvcGUiOlsiYSJdfQ");
            vec![header, text("."), claims, text("."), text("c2lnbmF0dXJl")]
        }
    })
}

/// Mechanism indices, as in the first byte of the target's input, with matching login modules.
const MODULES: &[(u8, &str)] = &[
    (0, "com.sun.security.auth.module.Krb5LoginModule"),
    (1, "org.apache.kafka.common.security.plain.PlainLoginModule"),
    (1, "kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule"),
    (2, "org.apache.kafka.common.security.scram.ScramLoginModule"),
    (3, "org.apache.kafka.common.security.scram.ScramLoginModule"),
    (4, "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"),
    (5, "software.amazon.msk.auth.iam.IAMLoginModule"),
    (1, "com.sun.security.auth.module.JndiLoginModule"),
];
const NAMES: &[&str] = &[
    "username",
    "password",
    "tokenauth",
    "clientId",
    "clientSecret",
    "scope",
    "extension_a",
    "useKeyTab",
    "keyTab",
    "principal",
    "serviceName",
    "storeKey",
    "useTicketCache",
    "unsecuredLoginStringClaim_sub",
    "awsProfileName",
    "unsecuredLoginLifetimeSeconds",
    "user_alice",
];

fn jaas(module: usize, random: &mut Random) -> Node {
    let class = MODULES.get(module).map_or("", |(_, class)| *class);
    let mut nodes = vec![text(class), text(" "), text("required")];
    for _ in 0..random.below(7) {
        let value = match random.below(8) {
            0 => "true".into(),
            1 => format!("{}", random.edge(1)),
            2 => "a\\\"b\\\\c\\n\\u0041\\101".into(),
            3 => "/* no */ // no".into(),
            _ => secure::SECRET.to_owned(),
        };
        let quote = random.pick(&["\"", "\"", "\"", "'", ""]).unwrap_or_default();
        let equals = random.pick(&["=", " = ", "\n=\t"]).unwrap_or_default();
        let name = random.pick(NAMES).unwrap_or_default();
        nodes.extend([text(" "), text(name), text(equals), text(quote), text(value), text(quote)]);
    }
    if random.one_in(6) {
        nodes.push(text(" /* a comment */ // another\n"));
    }
    nodes.push(text(if random.one_in(12) { "" } else { ";" }));
    if random.one_in(20) {
        nodes.push(text("\0 another.Module required;"));
    }
    Node::Group(nodes)
}

fn big(width: usize, value: i64) -> Node {
    Node::Int(Number::Big(width), value)
}

fn sized(width: usize, body: Vec<Node>) -> Node {
    Node::Sized { by: Number::Big(width), more: 0, lie: None, body }
}

fn list(items: Vec<Node>) -> Node {
    Node::List { by: Number::Big(4), lie: None, packing: crate::tree::Packing::Plain, damage: None, items }
}

/// Returns a store as Java's `JavaKeyStore` writes it, without the digest.
fn jks(random: &mut Random) -> Node {
    let certificate =
        || Node::Group(vec![sized(2, vec![text("X.509")]), sized(4, vec![Node::Raw(CERTIFICATE.to_vec())])]);
    let entries = (0..1 + random.below(4)).map(|number| {
        let head = |tag| vec![big(4, tag), sized(2, vec![text(format!("a{number}"))]), big(8, 0)];
        let mut nodes = head(if number == 0 { 1 } else { 2 });
        if number == 0 {
            // The encrypted key follows the object identifier of Sun's key protector.
            let oid = vec![0x2b, 0x06, 0x01, 0x04, 0x01, 0x2a, 0x02, 0x11, 0x01, 0x01];
            let algorithm = der(0x30, vec![der(0x06, vec![Node::Raw(oid)]), der(0x05, vec![])]);
            let protected = der(0x30, vec![algorithm, der(0x04, vec![Node::Raw(protected())])]);
            nodes.push(sized(4, vec![protected]));
            nodes.push(list((0..1 + random.below(2)).map(|_| certificate()).collect()));
        } else {
            nodes.push(certificate());
        }
        Node::Group(nodes)
    });
    let entries = entries.collect();
    Node::Group(vec![big(4, 0xfeed_feed), big(4, if random.one_in(12) { 1 } else { 2 }), list(entries)])
}

/// Returns the private key encrypted as in JKS, with a salt of zeros.
fn protected() -> Vec<u8> {
    use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
    let password: Vec<u8> = secure::SECRET.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let mut mask = vec![0; 20];
    let mut out = mask.clone();
    for part in KEY.chunks(20) {
        mask = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[password.as_slice(), &mask].concat()).as_ref().to_vec();
        out.extend(part.iter().zip(&mask).map(|(byte, mask)| byte ^ mask));
    }
    out.extend_from_slice(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[password.as_slice(), KEY].concat()).as_ref());
    out
}

fn der(tag: u8, body: Vec<Node>) -> Node {
    Node::Group(vec![Node::Raw(vec![tag]), Node::Sized { by: Number::Der, more: 0, lie: None, body }])
}

fn oid(bytes: &[u8]) -> Node {
    der(0x06, vec![Node::Raw(bytes.to_vec())])
}

/// Returns the unencrypted safes of a PKCS12 store. The target can read them if its flags request the correct digest.
fn pkcs12(random: &mut Random) -> Node {
    const BAG: [u8; 10] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01];
    let bag = |kind: u8, value: Node| der(0x30, vec![oid(&[&BAG[..], &[kind]].concat()), der(0xa0, vec![value])]);
    let safes = (0..1 + random.below(3)).map(|_| {
        let bags = (0..1 + random.below(3)).map(|_| match random.below(4) {
            0 => bag(1, Node::Raw(KEY.to_vec())),
            1 => bag(2, encrypted(random)),
            _ => {
                let x509 = oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x16, 0x01]);
                let certificate = der(0xa0, vec![der(0x04, vec![Node::Raw(CERTIFICATE.to_vec())])]);
                bag(3, der(0x30, vec![x509, certificate]))
            }
        });
        let bags = der(0x30, bags.collect());
        let data = oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01]);
        der(0x30, vec![data, der(0xa0, vec![der(0x04, vec![bags])])])
    });
    let safes = safes.collect();
    der(0x30, safes)
}

/// Returns an encrypted key in PKCS8 format: either one written by OpenSSL, or random bytes with PBES2 parameters and a
/// random number of iterations.
fn encrypted(random: &mut Random) -> Node {
    if random.one_in(2) {
        return Node::Raw(ENCRYPTED.to_vec());
    }
    let pkcs = |rest: &[u8]| oid(&[&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01][..], rest].concat());
    let iterations = der(0x02, vec![big(if random.one_in(8) { 4 } else { 2 }, 1 + random.below(9) as i64)]);
    let prf = der(0x30, vec![oid(&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x09]), der(0x05, vec![])]);
    let kdf = vec![der(0x04, vec![Node::Raw(vec![1; 8])]), iterations, prf];
    let kdf = der(0x30, vec![pkcs(&[0x05, 0x0c]), der(0x30, kdf)]);
    let aes = oid(&[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x2a]);
    let cipher = der(0x30, vec![aes, der(0x04, vec![Node::Raw(vec![2; 16])])]);
    let algorithm = der(0x30, vec![pkcs(&[0x05, 0x0d]), der(0x30, vec![kdf, cipher])]);
    der(0x30, vec![algorithm, der(0x04, vec![Node::Raw(vec![3; 144])])])
}

fn pem(random: &mut Random) -> Node {
    let sections = (0..1 + random.below(3)).flat_map(|_| {
        let (label, der) = match random.below(5) {
            0 => ("PRIVATE KEY", KEY),
            1 => ("ENCRYPTED PRIVATE KEY", ENCRYPTED),
            2 if random.one_in(4) => ("RSA PRIVATE KEY", KEY),
            _ => ("CERTIFICATE", CERTIFICATE),
        };
        let mut nodes = vec![text("-----BEGIN "), text(label), text("-----\n")];
        if random.one_in(10) {
            nodes.push(text("Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n"));
        }
        for line in base64(der).as_bytes().chunks(64) {
            nodes.extend([Node::Raw(line.to_vec()), text(if random.one_in(9) { "\r\n" } else { "\n" })]);
        }
        nodes.extend([text("-----END "), text(label), text("-----\n")]);
        nodes
    });
    let sections = sections.collect();
    Node::Group(sections)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let number = three.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)) << (8 * (3 - three.len()));
        for position in 0..4 {
            let digit = DIGITS.get(number >> (18 - 6 * position) & 63).copied().unwrap_or_default();
            out.push(if position > three.len() { '=' } else { char::from(digit) });
        }
    }
    out
}
