//! PKCS12 and encrypted PKCS8, read by AWS-LC.
//!
//! The one place that calls AWS-LC by its C interface, since aws-lc-rs has no safe one for these. Every pointer lives in
//! a guard that frees it; nothing that C made outlives its function.

#![allow(unsafe_code, reason = "C functions without a safe wrapper; each block says why it is sound")]

use std::ffi::c_char;
use std::ptr;

use aws_lc_sys as c;
use zeroize::Zeroizing;

use super::kdf_limits;

/// What was in a store.
#[derive(Default)]
pub(super) struct Opened {
    /// PKCS8, as DER.
    pub(super) key: Option<Zeroizing<Vec<u8>>>,
    /// As DER, the key's own certificate first, where the store says what belongs to the key.
    pub(super) chain: Vec<Vec<u8>>,
    /// All others, as DER, in no order.
    pub(super) certificates: Vec<Vec<u8>>,
}

/// Why there is nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// Nothing can be decrypted with it.
    Password,
    /// What it is.
    Because(String),
}

/// Opens a PKCS12 store.
pub(super) fn pkcs12(der: &[u8], password: &str) -> Result<Opened, Refused> {
    kdf_limits::check_pkcs12(der, password).map_err(Refused::Because)?;
    let password = terminated(password)?;
    let certificates = Stack::new()?;
    let mut key = Key(ptr::null_mut());
    let mut bytes = bytes(der);
    // SAFETY: `bytes` describes `der`, which outlives the call and is only read; `key.0` and the stack are ours to be
    // filled, and freed by their guards; the password ends with a NUL.
    let read = unsafe {
        c::PKCS12_get_key_and_certs(
            &raw mut key.0,
            certificates.typed(),
            &raw mut bytes,
            password.as_ptr().cast::<c_char>(),
        )
    };
    if read != 1 {
        return Err(refused());
    }
    let key = (!key.0.is_null()).then(|| key.marshal()).transpose()?;
    Ok(Opened { key, chain: Vec::new(), certificates: certificates.encoded()? })
}

/// Decrypts a private key.
pub(super) fn encrypted_pkcs8(der: &[u8], password: &str) -> Result<Zeroizing<Vec<u8>>, Refused> {
    kdf_limits::check_pkcs8(der).map_err(Refused::Because)?;
    let mut bytes = bytes(der);
    // SAFETY: `bytes` describes `der` and the password is given with its length; both outlive the call and are only
    // read. What is returned is ours, and freed by its guard.
    let key =
        Key(unsafe { c::PKCS8_parse_encrypted_private_key(&raw mut bytes, password.as_ptr().cast(), password.len()) });
    if key.0.is_null() { Err(refused()) } else { key.marshal() }
}

/// With a NUL at its end, as C wants it.
fn terminated(password: &str) -> Result<Zeroizing<Vec<u8>>, Refused> {
    if password.contains('\0') {
        return Err(Refused::Password);
    }
    Ok(Zeroizing::new([password.as_bytes(), b"\0"].concat()))
}

fn bytes(der: &[u8]) -> c::CBS {
    c::CBS { data: der.as_ptr(), len: der.len() }
}

struct Key(*mut c::EVP_PKEY);

impl Key {
    /// As PKCS8.
    fn marshal(&self) -> Result<Zeroizing<Vec<u8>>, Refused> {
        let (mut out, mut len) = (ptr::null_mut(), 0);
        // SAFETY: a CBB is plain data that CBB_zero and CBB_init fill before it is read; the key is not null, and is
        // only read. CBB_finish gives its buffer to us; CBB_cleanup may be called in any state after CBB_zero.
        let done = unsafe {
            let mut builder = std::mem::MaybeUninit::<c::CBB>::uninit();
            c::CBB_zero(builder.as_mut_ptr());
            let done = c::CBB_init(builder.as_mut_ptr(), 4096) == 1
                && c::EVP_marshal_private_key(builder.as_mut_ptr(), self.0) == 1
                && c::CBB_finish(builder.as_mut_ptr(), &raw mut out, &raw mut len) == 1;
            c::CBB_cleanup(builder.as_mut_ptr());
            done
        };
        if done { Ok(Zeroizing::new(taken(out, len))) } else { Err(refused()) }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: null, which is allowed, or a key of ours.
        unsafe { c::EVP_PKEY_free(self.0) }
    }
}

/// A stack of certificates.
struct Stack(*mut c::OPENSSL_STACK);

impl Stack {
    fn new() -> Result<Self, Refused> {
        // SAFETY: needs nothing.
        let stack = unsafe { c::OPENSSL_sk_new_null() };
        if stack.is_null() { Err(refused()) } else { Ok(Self(stack)) }
    }

    /// In C, a stack of one type is a stack under another name.
    fn typed(&self) -> *mut c::stack_st_X509 {
        self.0.cast()
    }

    fn encoded(&self) -> Result<Vec<Vec<u8>>, Refused> {
        let mut all = Vec::new();
        // SAFETY: the stack is ours and not null.
        for index in 0..unsafe { c::OPENSSL_sk_num(self.0) } {
            let mut out = ptr::null_mut();
            // SAFETY: the index is within the stack, whose elements are certificates. With `out` null, i2d_X509
            // allocates, and gives the buffer to us.
            let len = unsafe { c::i2d_X509(c::OPENSSL_sk_value(self.0, index).cast(), &raw mut out) };
            all.push(taken(out, usize::try_from(len).map_err(|_| refused())?));
        }
        Ok(all)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the stack and its certificates are ours; a null certificate may be freed.
        unsafe {
            while c::OPENSSL_sk_num(self.0) > 0 {
                c::X509_free(c::OPENSSL_sk_pop(self.0).cast());
            }
            c::OPENSSL_sk_free(self.0);
        }
    }
}

/// Copies a buffer of AWS-LC's and gives it back, which wipes it.
fn taken(buffer: *mut u8, len: usize) -> Vec<u8> {
    if buffer.is_null() {
        return Vec::new();
    }
    // SAFETY: AWS-LC has just made the buffer, so long, and left it to us.
    unsafe {
        let copy = std::slice::from_raw_parts(buffer, len).to_vec();
        c::OPENSSL_free(buffer.cast());
        copy
    }
}

/// What AWS-LC says of this thread's last call. Texts are not compiled in: it says it in numbers.
fn refused() -> Refused {
    let mut code = 0;
    loop {
        // SAFETY: needs nothing; takes the oldest error off the thread's own queue, 0 at its end.
        let next = unsafe { c::ERR_get_error() };
        if next == 0 {
            return Refused::Because(reason(code));
        }
        match split(next) {
            (c::ERR_LIB_PKCS8, c::PKCS8_R_INCORRECT_PASSWORD) | (c::ERR_LIB_CIPHER, c::CIPHER_R_BAD_DECRYPT) => {
                // SAFETY: needs nothing; empties that queue.
                unsafe { c::ERR_clear_error() };
                return Refused::Password;
            }
            // The oldest is the cause.
            _ if code == 0 => code = next,
            _ => {}
        }
    }
}

/// Library and reason, as `ERR_GET_LIB` and `ERR_GET_REASON` cut them out.
fn split(code: u32) -> (i32, i32) {
    let part = |bits: u32| i32::try_from(bits).unwrap_or_default();
    // PKCS12 has a number of its own, and the reasons of PKCS8.
    let library = match part(code >> 24) {
        c::ERR_LIB_PKCS12 => c::ERR_LIB_PKCS8,
        library => library,
    };
    (library, part(code & 0xFFF))
}

fn reason(code: u32) -> String {
    let known = match split(code) {
        (c::ERR_LIB_PKCS8, c::PKCS8_R_MISSING_MAC) => "it has no MAC: write it again with a password",
        (c::ERR_LIB_PKCS8, c::PKCS8_R_MULTIPLE_PRIVATE_KEYS_IN_PKCS12) => {
            "it has more than one key: put one into a separate store"
        }
        (
            c::ERR_LIB_PKCS8,
            c::PKCS8_R_UNKNOWN_ALGORITHM
            | c::PKCS8_R_UNKNOWN_CIPHER
            | c::PKCS8_R_UNKNOWN_CIPHER_ALGORITHM
            | c::PKCS8_R_UNKNOWN_DIGEST
            | c::PKCS8_R_UNKNOWN_HASH
            | c::PKCS8_R_UNSUPPORTED_CIPHER
            | c::PKCS8_R_UNSUPPORTED_KEYLENGTH
            | c::PKCS8_R_UNSUPPORTED_KEY_DERIVATION_FUNCTION
            | c::PKCS8_R_UNSUPPORTED_PRF
            | c::PKCS8_R_UNSUPPORTED_SALT_TYPE
            | c::PKCS8_R_METHOD_NOT_SUPPORTED,
        ) => "it is encrypted in a way that is not read: write it again with AES-256 and HMAC-SHA-256",
        (c::ERR_LIB_PKCS8, c::PKCS8_R_BAD_ITERATION_COUNT) => "its count of iterations cannot be",
        _ => return format!("it is damaged, or of a kind that is not known (AWS-LC error {code:#010x})"),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_store_is_refused_and_leaves_no_error_behind() {
        for bytes in [&b""[..], b"\x30", b"\x30\x03\x02\x01\x03", &[0x30; 4096], &[0xFF; 64]] {
            assert!(matches!(pkcs12(bytes, "x").err(), Some(Refused::Because(_))), "{bytes:?}");
            assert!(encrypted_pkcs8(bytes, "x").is_err(), "{bytes:?}");
            // SAFETY: needs nothing.
            assert_eq!(unsafe { c::ERR_peek_last_error() }, 0);
        }
        assert_eq!(pkcs12(b"", "with a \0").err(), Some(Refused::Password));
    }
}
