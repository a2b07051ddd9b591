//! When tickets are renewed, and what is refused before the library sees it.

use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn tickets_are_renewed_late_in_their_life_and_at_once_after_it() {
    let (enough, min_period) = (seconds(20), seconds(60));
    assert!(!due(Some(seconds(21)), enough, seconds(80), min_period));
    assert!(due(Some(seconds(20)), enough, seconds(80), min_period));
    assert!(!due(Some(seconds(19)), enough, seconds(59), min_period), "not asked for again so soon");
    assert!(due(Some(Duration::ZERO), enough, Duration::ZERO, min_period));
    assert!(!due(None, Duration::ZERO, seconds(1 << 40), min_period), "they hold for ever");
}

#[test]
fn no_security_layer_is_chosen_where_the_broker_offers_none() {
    assert_eq!(choose(&[1, 0, 0, 0]), Ok(()));
    assert_eq!(choose(&[7, 0, 16, 0]), Ok(()));
    assert!(choose(&[6, 0, 16, 0]).is_err_and(|reason| reason.contains("use SASL_SSL")));
    for offer in [&[][..], &[1], &[1, 0, 0], &[1, 0, 0, 0, 0], &[1; 1000]] {
        assert!(choose(offer).is_err_and(|reason| reason.contains("instead of 4")), "{offer:?}");
    }
    assert_eq!(chosen("alice@REALM"), b"\x01\0\0\0alice@REALM");
}

#[test]
fn what_is_no_keytab_is_refused_before_the_library_takes_it_for_an_empty_one() {
    let folder = std::env::temp_dir().join(format!("samsarrow-gssapi-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("k");
    let missing = look_at(&file).unwrap_err();
    assert!(missing.contains("sasl.kerberos.keytab cannot be read") && missing.contains("/k "), "{missing}");
    for (bytes, good) in [(&b""[..], false), (b"\x05", false), (b"-----BEGIN", false), (b"\x05\x02", true)] {
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(look_at(&file).is_ok(), good, "{bytes:?}");
    }
    assert!(look_at(&folder).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
}
