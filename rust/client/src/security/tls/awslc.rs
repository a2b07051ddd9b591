//! PKCS12 stores and encrypted PKCS8 keys, read by AWS-LC.
//!
//! This is the only module that calls AWS-LC's C interface, because aws-lc-rs has no safe interface for these formats.
//! A guard owns every pointer and frees it, and no C allocation outlives the Rust function that made it.

#![allow(unsafe_code, reason = "C functions without a safe wrapper; each block says why it is sound")]

use std::ffi::c_char;
use std::ptr;

use aws_lc_sys as c;
use zeroize::Zeroizing;

use super::kdf_limits;

/// Contents of a store.
#[derive(Default)]
pub(super) struct StoreContents {
    /// Private key in DER, as PKCS8.
    pub(super) key: Option<Zeroizing<Vec<u8>>>,
    /// Certificate chain in DER, leaf first. Empty unless the store assigns certificates to the key.
    pub(super) chain: Vec<Vec<u8>>,
    /// All other certificates in DER, in no particular order.
    pub(super) certificates: Vec<Vec<u8>>,
}

/// Reason why a store or key cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StoreError {
    /// The password is wrong.
    Password,
    /// Any other reason, as text.
    Invalid(String),
}

/// Opens a PKCS12 store and returns its contents.
pub(super) fn pkcs12(der: &[u8], password: &str) -> Result<StoreContents, StoreError> {
    kdf_limits::check_pkcs12(der, password).map_err(StoreError::Invalid)?;
    let password = nul_terminated(password)?;
    let certificates = Stack::new()?;
    let mut key = Key(ptr::null_mut());
    let mut bytes = bytes(der);
    // SAFETY: `bytes` describes `der`, which outlives the call and is only read; the call fills `key.0` and the stack,
    // whose guards free them; the password ends with a NUL.
    let read = unsafe {
        c::PKCS12_get_key_and_certs(
            &raw mut key.0,
            certificates.as_x509(),
            &raw mut bytes,
            password.as_ptr().cast::<c_char>(),
        )
    };
    if read != 1 {
        return Err(last_error());
    }
    let key = (!key.0.is_null()).then(|| key.to_pkcs8()).transpose()?;
    Ok(StoreContents { key, chain: Vec::new(), certificates: certificates.to_der()? })
}

/// Decrypts a private key.
pub(super) fn encrypted_pkcs8(der: &[u8], password: &str) -> Result<Zeroizing<Vec<u8>>, StoreError> {
    kdf_limits::check_pkcs8(der).map_err(StoreError::Invalid)?;
    let mut bytes = bytes(der);
    // SAFETY: `bytes` describes `der` and the password is passed with its length; both outlive the call and are only
    // read. The caller owns the returned key, and its guard frees it.
    let key =
        Key(unsafe { c::PKCS8_parse_encrypted_private_key(&raw mut bytes, password.as_ptr().cast(), password.len()) });
    if key.0.is_null() { Err(last_error()) } else { key.to_pkcs8() }
}

/// Returns the password as a NUL-terminated C string.
fn nul_terminated(password: &str) -> Result<Zeroizing<Vec<u8>>, StoreError> {
    if password.contains('\0') {
        return Err(StoreError::Password);
    }
    Ok(Zeroizing::new([password.as_bytes(), b"\0"].concat()))
}

fn bytes(der: &[u8]) -> c::CBS {
    c::CBS { data: der.as_ptr(), len: der.len() }
}

struct Key(*mut c::EVP_PKEY);

impl Key {
    /// Encodes the key as PKCS8 in DER.
    fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>, StoreError> {
        let (mut out, mut len) = (ptr::null_mut(), 0);
        // SAFETY: a CBB is plain data that CBB_zero and CBB_init fill before it is read; the key is not null, and is
        // only read. CBB_finish passes its buffer to the caller; CBB_cleanup may be called in any state after CBB_zero.
        let done = unsafe {
            let mut builder = std::mem::MaybeUninit::<c::CBB>::uninit();
            c::CBB_zero(builder.as_mut_ptr());
            let done = c::CBB_init(builder.as_mut_ptr(), 4096) == 1
                && c::EVP_marshal_private_key(builder.as_mut_ptr(), self.0) == 1
                && c::CBB_finish(builder.as_mut_ptr(), &raw mut out, &raw mut len) == 1;
            c::CBB_cleanup(builder.as_mut_ptr());
            done
        };
        if done { Ok(Zeroizing::new(copy_and_free(out, len))) } else { Err(last_error()) }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: the pointer is null, which is allowed, or a key owned by this guard.
        unsafe { c::EVP_PKEY_free(self.0) }
    }
}

/// A stack of certificates.
struct Stack(*mut c::OPENSSL_STACK);

impl Stack {
    fn new() -> Result<Self, StoreError> {
        // SAFETY: no requirements.
        let stack = unsafe { c::OPENSSL_sk_new_null() };
        if stack.is_null() { Err(last_error()) } else { Ok(Self(stack)) }
    }

    /// Returns the pointer under its C type. In AWS-LC, typed stacks are aliases of the generic stack.
    fn as_x509(&self) -> *mut c::stack_st_X509 {
        self.0.cast()
    }

    fn to_der(&self) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut all = Vec::new();
        // SAFETY: the stack is owned by this guard and not null.
        for index in 0..unsafe { c::OPENSSL_sk_num(self.0) } {
            let mut out = ptr::null_mut();
            // SAFETY: the index is within the stack, whose elements are certificates. With `out` null, i2d_X509
            // allocates the buffer and passes it to the caller.
            let len = unsafe { c::i2d_X509(c::OPENSSL_sk_value(self.0, index).cast(), &raw mut out) };
            all.push(copy_and_free(out, usize::try_from(len).map_err(|_| last_error())?));
        }
        Ok(all)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the stack and its certificates are owned by this guard; freeing a null certificate is allowed.
        unsafe {
            while c::OPENSSL_sk_num(self.0) > 0 {
                c::X509_free(c::OPENSSL_sk_pop(self.0).cast());
            }
            c::OPENSSL_sk_free(self.0);
        }
    }
}

/// Copies a buffer allocated by AWS-LC and frees the buffer. AWS-LC wipes memory that it frees.
fn copy_and_free(buffer: *mut u8, len: usize) -> Vec<u8> {
    if buffer.is_null() {
        return Vec::new();
    }
    // SAFETY: AWS-LC allocated the buffer with this length and passed it to the caller.
    unsafe {
        let copy = std::slice::from_raw_parts(buffer, len).to_vec();
        c::OPENSSL_free(buffer.cast());
        copy
    }
}

/// Returns the error of this thread's last AWS-LC call. It is known only as a code, because AWS-LC's error texts are
/// not compiled in.
fn last_error() -> StoreError {
    let mut code = 0;
    loop {
        // SAFETY: no requirements; removes the oldest error from the thread's own queue, 0 at its end.
        let next = unsafe { c::ERR_get_error() };
        if next == 0 {
            return StoreError::Invalid(reason(code));
        }
        match library_and_reason(next) {
            (c::ERR_LIB_PKCS8, c::PKCS8_R_INCORRECT_PASSWORD) | (c::ERR_LIB_CIPHER, c::CIPHER_R_BAD_DECRYPT) => {
                // SAFETY: no requirements; empties that queue.
                unsafe { c::ERR_clear_error() };
                return StoreError::Password;
            }
            // The oldest error in the queue is the cause.
            _ if code == 0 => code = next,
            _ => {}
        }
    }
}

/// Splits an error code into library and reason, as `ERR_GET_LIB` and `ERR_GET_REASON` do.
fn library_and_reason(code: u32) -> (i32, i32) {
    let part = |bits: u32| i32::try_from(bits).unwrap_or_default();
    // PKCS12 has its own library code, but the reason codes of PKCS8.
    let library = match part(code >> 24) {
        c::ERR_LIB_PKCS12 => c::ERR_LIB_PKCS8,
        library => library,
    };
    (library, part(code & 0xFFF))
}

fn reason(code: u32) -> String {
    let known = match library_and_reason(code) {
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
        ) => "its encryption is not supported: write it again with AES-256 and HMAC-SHA-256",
        (c::ERR_LIB_PKCS8, c::PKCS8_R_BAD_ITERATION_COUNT) => "its iteration count is invalid",
        _ => return format!("it is damaged, or of an unknown kind (AWS-LC error {code:#010x})"),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_stores_leave_no_error_in_the_queue() {
        for bytes in [&b""[..], b"\x30", b"\x30\x03\x02\x01\x03", &[0x30; 4096], &[0xFF; 64]] {
            assert!(matches!(pkcs12(bytes, "x").err(), Some(StoreError::Invalid(_))), "{bytes:?}");
            assert!(encrypted_pkcs8(bytes, "x").is_err(), "{bytes:?}");
            // SAFETY: no requirements.
            assert_eq!(unsafe { c::ERR_peek_last_error() }, 0);
        }
        assert_eq!(pkcs12(b"", "with a \0").err(), Some(StoreError::Password));
    }
}
