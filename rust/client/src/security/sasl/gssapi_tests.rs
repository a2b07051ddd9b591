//! Tests of ticket renewal, and of checks that are made before the library is called.

use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn tickets_are_renewed_before_and_after_expiry() {
    let (renew_below, min_period) = (seconds(20), seconds(60));
    assert!(!must_renew(Some(seconds(21)), renew_below, seconds(80), min_period));
    assert!(must_renew(Some(seconds(20)), renew_below, seconds(80), min_period));
    assert!(!must_renew(Some(seconds(19)), renew_below, seconds(59), min_period), "not requested again so soon");
    assert!(must_renew(Some(Duration::ZERO), renew_below, Duration::ZERO, min_period));
    assert!(!must_renew(None, Duration::ZERO, seconds(1 << 40), min_period), "they never expire");
}

#[test]
fn layer_offer_must_include_none() {
    assert_eq!(check_layer_offer(&[1, 0, 0, 0]), Ok(()));
    assert_eq!(check_layer_offer(&[7, 0, 16, 0]), Ok(()));
    assert!(check_layer_offer(&[6, 0, 16, 0]).is_err_and(|reason| reason.contains("use SASL_SSL")));
    for offer in [&[][..], &[1], &[1, 0, 0], &[1, 0, 0, 0, 0], &[1; 1000]] {
        assert!(check_layer_offer(offer).is_err_and(|reason| reason.contains("instead of 4")), "{offer:?}");
    }
    assert_eq!(layer_choice("alice@REALM"), b"\x01\0\0\0alice@REALM");
}

#[test]
fn check_keytab_rejects_other_files() {
    let folder = std::env::temp_dir().join(format!("samsarrow-gssapi-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("k");
    let missing = check_keytab(&file).unwrap_err();
    assert!(missing.contains("sasl.kerberos.keytab cannot be read") && missing.contains("/k "), "{missing}");
    for (bytes, good) in [(&b""[..], false), (b"\x05", false), (b"-----BEGIN", false), (b"\x05\x02", true)] {
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(check_keytab(&file).is_ok(), good, "{bytes:?}");
    }
    assert!(check_keytab(&folder).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
}
